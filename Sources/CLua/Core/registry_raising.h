// The slots of a state's registry that this layer uses.
//
// Each value has a fixed index in the array part of the registry, next to those that `luaL_ref` hands out, so that a read is cheap.
#ifndef CLUA_REGISTRY_RAISING_H
#define CLUA_REGISTRY_RAISING_H

#include <lua5.4/lua.h>

#include "state.h"

typedef enum clua_kept {
    CLUA_KEPT_WEAK_METATABLE,       // metatable of tables with weak values
    CLUA_KEPT_PREALLOCATED_HANDLE,  // a handle that holds no object yet
    CLUA_KEPT_WATCHER,              // weak array that holds the watcher; see collections.c
    CLUA_KEPT_WATCHER_METATABLE,
    CLUA_KEPT_CLASSES,              // table: class (light userdata) -> class table
    CLUA_KEPT_REAL_GLOBALS,         // the state's own global table
    CLUA_KEPT_FRESH_GLOBALS,        // name -> value in a fresh state
    CLUA_KEPT_BODY_METATABLE,       // metatable of the environments of bodies
    CLUA_KEPT_FULL_ENVIRONMENTS,    // weak table: filled environment -> true
    CLUA_KEPT_CHUNKS,               // module name -> its loader and the loader's data; see Calls/require.c
    CLUA_KEPT_SHARED_MODULES,       // module name -> the module, if all bodies share it, and the set of what it reads
    CLUA_KEPT_OWN_MODULES,          // weak table: environment -> the modules that its operation has, by name
    CLUA_KEPT_BATCH,                // the modules that are being loaded, while there are such
    CLUA_KEPT_BATCH_READS,          // the set of what they read
    CLUA_KEPT_MODULE_LIST,          // the values of a fresh state, until the index is made from them; see Libraries/modules.c
    CLUA_KEPT_MODULE_INDEX,         // weak table: value -> name of the module that it is or belongs to
    CLUA_KEPT_MODULE_FIELDS,        // weak table: value -> its key in that module; nil for the module itself
    CLUA_KEPT_MODULES_KNOWN,        // module name -> the value that was indexed under that name
    CLUA_KEPT_SNAPSHOTS,            // weak table: table of a module -> its copy; see Libraries/module_changes.c
    CLUA_KEPT_EARLIER_CHANGES,      // while modules are being loaded: table of a module -> the set of keys of the fields that differed before
    CLUA_KEPT_REQUIREMENTS,         // module name -> the set of those that it has required
    CLUA_KEPT_STRING_LIBRARY,       // the table `string`
    CLUA_KEPT_CHANGED_FIELDS,       // the changes of operations in modules here; see Libraries/isolation.c
    CLUA_KEPT_MODULE_LOADS,         // module name -> the rank of its load; see Libraries/modules.c
    CLUA_KEPT_WALKED,               // weak table: value of a loaded module -> true
    CLUA_KEPT_PRIVATE_TABLES,       // weak table: metatable that a module keeps -> the module's name and the path to it
    CLUA_KEPT_IDENTITIES,           // weak table: class -> its number; see Transfer/identity_raising.h
    CLUA_KEPT_IDENTIFIED,           // weak table: number -> the class that the running code has
    CLUA_KEPT_HOST_MODULES,         // module name -> true for the modules that the host's loader has found
    CLUA_KEPT_SEARCHPATH,           // package.searchpath
    CLUA_KEPT_LOADLIB,              // package.loadlib
    CLUA_KEPT_REQUIRE,              // require
    CLUA_KEPT_IPAIRS,               // ipairs
    CLUA_KEPT_CODES,                // utf8.codes
    CLUA_KEPT_GMATCH,               // string.gmatch
    CLUA_KEPT_SETTINGS,             // the coroutine `settings` of the state
    CLUA_KEPT_SEARCHERS,            // the searchers that each state has
    CLUA_KEPT_LOADERS,              // table: the part of `package.preload` that the main state has sent
    CLUA_KEPT_SAMPLES,              // weak table: prototype (light userdata) -> a closure
    CLUA_KEPT_FACTORIES,            // table: code (light userdata) -> compiled factory
    CLUA_KEPT_CONSOLE,              // table: the functions that an interactive session calls, by name
    CLUA_KEPT_ERROR,                // the message handler's record of the last error: value, message, traceback
    CLUA_KEPT_SCRIPT_GLOBALS,       // table: the globals of the host's script; see Calls/scripted.c
    CLUA_KEPT_SCRIPTED,             // table: the functions that the host's script defines, by name
    CLUA_KEPT_LIBRARIES,            // the contents of the libraries; see Libraries/isolation.c
    CLUA_KEPT_SET_ASIDE,            // list: what the libraries were before callbacks; see Libraries/isolation.c
    CLUA_KEPT_RANDOMSEED,           // Lua's `math.randomseed`
    CLUA_KEPT_FROZEN,               // weak table: frozen table (light userdata) -> view
    CLUA_KEPT_FROZEN_METATABLE,     // metatable of views
    CLUA_KEPT_JSON_ARRAY,           // metatable of arrays that may be empty; see Transfer/json.c
    CLUA_KEPT_CACHED_CLOSURES,      // the first of the cached closures, as in clua_state
    CLUA_KEPT_METATABLES = CLUA_KEPT_CACHED_CLOSURES + CLUA_CACHED_CLOSURE_COUNT,  // the first metatable, by kind
    CLUA_KEPT_CLASS_TABLES = CLUA_KEPT_METATABLES + CLUA_MAX_KINDS + 1,  // the first class table, by kind
    CLUA_KEPT_COUNT = CLUA_KEPT_CLASS_TABLES + CLUA_MAX_KINDS + 1
} clua_kept;

/// Creates the entries, all empty. May raise. Needs 1 free stack slot.
void clua_registry_open(lua_State *L);

/// Pushes the kept value, or false if there is none, and returns its type. Never raises. Needs 1 free stack slot.
static inline int clua_push_kept(lua_State *L, int kept) {
    return lua_rawgeti(L, LUA_REGISTRYINDEX, clua_state_of(L)->first_kept + kept);
}

/// Stores the value on top as the kept value, and pops it. Never raises, because the field exists.
static inline void clua_keep(lua_State *L, int kept) {
    lua_rawseti(L, LUA_REGISTRYINDEX, clua_state_of(L)->first_kept + kept);
}

#endif
