// What modules do to the globals.
//
// Loading a module may define globals, or give the global table a metatable. The module's functions go on using the state's own globals, so
// that is where it happens. In the state of a worker the environments of bodies do not read those: a body sees what a module has done
// when it requires the module, also when another body had it loaded, and others never do.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "environment_raising.h"
#include "libraries_raising.h"
#include "modules_raising.h"
#include "registry_raising.h"

// In the record of a module: the metatable that it has given to the globals.
static const char metatable_key;

// Stack indices in `require`; the results are behind them.
enum { NAME = 1, CALLERS_GLOBALS, GLOBALS_BEFORE, METATABLE_BEFORE };

static bool is_loaded(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, NAME);
    bool is_loaded = lua_gettable(L, -2) != LUA_TNIL;
    lua_pop(L, 2);
    return is_loaded;
}

static void push_metatable_of_globals(lua_State *L) {
    clua_push_real_globals(L);
    if (!lua_getmetatable(L, -1)) lua_pushnil(L);
    lua_remove(L, -2);
}

static void restore_metatable(lua_State *L) {
    clua_push_real_globals(L);
    lua_pushvalue(L, METATABLE_BEFORE);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

// Keeps what the module has changed, of which `metatable` is a part.
static void record_changes(lua_State *L, int metatable) {
    int top = lua_gettop(L), real = top + 1, record = top + 2;
    clua_push_real_globals(L);
    lua_newtable(L);
    clua_copy_changes(L, real, real, GLOBALS_BEFORE, record);
    lua_pushvalue(L, metatable);
    if (lua_istable(L, -1) && !lua_rawequal(L, -1, METATABLE_BEFORE)) lua_rawsetp(L, record, &metatable_key);
    lua_settop(L, record);
    lua_pushnil(L);
    if (lua_next(L, record)) {
        clua_push_kept(L, CLUA_KEPT_MODULE_GLOBALS);
        lua_pushvalue(L, NAME);
        lua_pushvalue(L, record);
        lua_rawset(L, -3);
    }
    lua_settop(L, top);
}

// Does to the caller's globals, an environment, what the module has done when it was loaded.
static void apply_changes(lua_State *L) {
    int top = lua_gettop(L), record = top + 2;
    clua_push_kept(L, CLUA_KEPT_MODULE_GLOBALS);
    lua_pushvalue(L, NAME);
    if (lua_rawget(L, -2) == LUA_TTABLE) {
        clua_fill_environment(L, CALLERS_GLOBALS);
        lua_pushnil(L);
        while (lua_next(L, record)) {
            if (lua_touserdata(L, -2) == &metatable_key) {
                lua_setmetatable(L, CALLERS_GLOBALS);
                continue;
            }
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, CALLERS_GLOBALS);
        }
    }
    lua_settop(L, top);
}

int clua_require_module(lua_State *L) {
    clua_state *state = clua_state_of(L);
    bool is_body = !clua_are_globals_real(L);
    luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    luaL_checkstack(L, 16, NULL);
    clua_push_current_globals(L);
    if (is_body && strcmp(lua_tostring(L, NAME), LUA_GNAME) == 0) {
        clua_fill_environment(L, CALLERS_GLOBALS);
        return 1;
    }
    bool is_recorded = state->separates_globals && !is_loaded(L);
    if (is_recorded) {
        clua_copy_globals(L);
        push_metatable_of_globals(L);
    }
    lua_settop(L, METATABLE_BEFORE);
    clua_push_real_globals(L);
    clua_set_current_globals(L);
    state->loads++;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, NAME);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    state->loads--;
    lua_pushvalue(L, CALLERS_GLOBALS);
    clua_set_current_globals(L);
    clua_modules_changed(L);
    int results = lua_gettop(L);
    if (is_recorded) {
        push_metatable_of_globals(L);
        // A module that another one requires is followed by the rest of that one, and a prelude is for everybody.
        if (state->loads == 0 && !state->is_in_prelude) restore_metatable(L);
        if (status == LUA_OK) record_changes(L, results + 1);
        lua_settop(L, results);
    }
    if (status != LUA_OK) return lua_error(L);
    if (is_body && state->separates_globals) apply_changes(L);
    return results - METATABLE_BEFORE;
}
