// What this layer keeps in a state's registry.
//
// Each value has a place of its own in the registry's array, next to those that `luaL_ref` gives out, so that reading one costs
// little.
#ifndef CLUA_REGISTRY_RAISING_H
#define CLUA_REGISTRY_RAISING_H

#include <lua5.4/lua.h>

#include "state.h"

typedef enum clua_kept {
    CLUA_KEPT_WEAK_METATABLE,  // of tables whose values are weak
    CLUA_KEPT_PREALLOCATED_HANDLE,   // one that holds nothing yet
    CLUA_KEPT_WATCHER,        // weak array: the watcher; see collections.c
    CLUA_KEPT_WATCHER_METATABLE,
    CLUA_KEPT_CLASSES,        // table: class (light userdata) -> class table
    CLUA_KEPT_REAL_GLOBALS,   // the state's own global table
    CLUA_KEPT_FRESH_GLOBALS,  // name -> value in a fresh state
    CLUA_KEPT_BODY_METATABLE,  // of the environments of bodies
    CLUA_KEPT_FULL_ENVIRONMENTS,  // weak table: environment that was filled -> true, or the set of modules that were applied to it
    CLUA_KEPT_MODULE_GLOBALS, // name of a module -> what loading it has done to the globals
    CLUA_KEPT_MODULE_INDEX,   // weak table: value -> the name of the module that it is, or is a field of
    CLUA_KEPT_MODULE_FIELDS,  // weak table: value -> its key in that module; nothing for the module itself
    CLUA_KEPT_MODULES_KNOWN,  // the module's name -> what was looked at under that name
    CLUA_KEPT_SEARCHPATH,     // package.searchpath
    CLUA_KEPT_LOADLIB,        // package.loadlib
    CLUA_KEPT_REQUIRE,        // require
    CLUA_KEPT_PATH_NAMES,     // the coroutine `path_names` of the state
    CLUA_KEPT_SAMPLES,        // weak table: prototype (light userdata) -> a closure
    CLUA_KEPT_FACTORIES,      // table: code (light userdata) -> compiled factory
    CLUA_KEPT_ERROR,          // what a message handler says of the last error: value, message, traceback
    CLUA_KEPT_CACHED_CLOSURES,         // the first of the closures that are used again, as in clua_state
    CLUA_KEPT_METATABLES = CLUA_KEPT_CACHED_CLOSURES + CLUA_CACHED_CLOSURE_COUNT,  // the first of the classes' metatables, by kind
    CLUA_KEPT_COUNT = CLUA_KEPT_METATABLES + CLUA_MAX_KINDS + 1
} clua_kept;

/// Makes the places, each with nothing in it. Before anything else uses the registry. May raise. Needs 1 free stack slot.
void clua_registry_open(lua_State *L);

/// Pushes what is kept there, false for nothing; returns its type. Never raises. Needs 1 slot.
static inline int clua_push_kept(lua_State *L, int kept) {
    return lua_rawgeti(L, LUA_REGISTRYINDEX, clua_state_of(L)->first_kept + kept);
}

/// Keeps the value on top, and pops it. Never raises: the field exists.
static inline void clua_keep(lua_State *L, int kept) {
    lua_rawseti(L, LUA_REGISTRYINDEX, clua_state_of(L)->first_kept + kept);
}

#endif
