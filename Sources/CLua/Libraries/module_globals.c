// The changes of modules to the globals.
//
// Loading a module may define globals, or give the global table a metatable. The module's functions keep using the state's own globals, so
// the changes are made there. In a worker's state the environments of bodies do not read those globals. A body sees a module's changes once
// it requires the module, even if another body loaded it. Other bodies never see them.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/libraries_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/modules_raising.h"

// `metatable_key` is the key, in a module's record, of the metatable that it gave to the globals. `removed` is the value for a removed
// name.
static const char metatable_key, removed;

// Stack indices in `require`. The results follow.
enum { NAME = 1, ENVIRONMENT, CALLERS_GLOBALS, OLD_GLOBALS, GLOBALS_BEFORE, METATABLE_BEFORE, LOADED_BEFORE, LAST = LOADED_BEFORE };

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

// Records in the table at `record` the names that the globals have lost. Stack indices.
static void record_removals(lua_State *L, int real, int record) {
    lua_pushnil(L);
    while (lua_next(L, GLOBALS_BEFORE)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, real) == LUA_TNIL) {
            lua_pushvalue(L, -2);
            lua_pushlightuserdata(L, (void *)&removed);
            lua_rawset(L, record);
        }
        lua_pop(L, 1);
    }
}

// Records what the module has changed. `metatable` is the stack index of the globals' present metatable.
static void record_changes(lua_State *L, int metatable) {
    int top = lua_gettop(L), real = top + 1, record = top + 2;
    clua_push_real_globals(L);
    lua_newtable(L);
    clua_copy_changes(L, real, real, GLOBALS_BEFORE, record);
    record_removals(L, real, record);
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

// Applies the module's recorded changes to the table at `globals`. The metatable is copied, because its receiver may change it.
static void apply_changes(lua_State *L, int globals) {
    int top = lua_gettop(L), record = top + 2;
    clua_push_kept(L, CLUA_KEPT_MODULE_GLOBALS);
    lua_pushvalue(L, NAME);
    if (lua_rawget(L, -2) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, record)) {
            if (lua_touserdata(L, -2) == &metatable_key) {
                clua_push_copy(L, -1);
                lua_setmetatable(L, globals);
                lua_pop(L, 1);
                continue;
            }
            if (lua_touserdata(L, -1) == &removed) {
                lua_pop(L, 1);
                lua_pushnil(L);
            }
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, globals);
        }
    }
    lua_settop(L, top);
}

// Applies the changes to the environment at `ENVIRONMENT`, once per module.
static void apply_to_environment(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_MODULE_GLOBALS);
    lua_pushvalue(L, NAME);
    bool is_recorded = lua_rawget(L, -2) == LUA_TTABLE;
    lua_pop(L, 2);
    if (!is_recorded) return;
    clua_fill_environment(L, ENVIRONMENT);
    clua_push_kept(L, CLUA_KEPT_FULL_ENVIRONMENTS);
    lua_pushvalue(L, ENVIRONMENT);
    if (lua_rawget(L, -2) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, ENVIRONMENT);
        lua_pushvalue(L, -2);
        lua_rawset(L, -4);
    }
    lua_pushvalue(L, NAME);
    bool is_done = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    if (!is_done) {
        lua_pushvalue(L, NAME);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
        apply_changes(L, ENVIRONMENT);
    }
    lua_pop(L, 2);
}

// Pushes the environment of the caller of `require`, or nil. The caller is a body, or a completion block or observer that a body has set.
static void push_environment(lua_State *L) {
    clua_push_current_globals(L);
    if (!clua_are_globals_real(L)) return;
    lua_Debug caller;
    for (int level = 1; lua_getstack(L, level, &caller); level++) {
        lua_getinfo(L, "f", &caller);
        for (int i = 1; !lua_iscfunction(L, -1) && lua_getupvalue(L, -1, i) != NULL; i++) {
            bool is_found = lua_istable(L, -1) && !lua_rawequal(L, -1, -3) && clua_is_environment(L, -1);
            if (is_found) {
                lua_replace(L, -3);
                lua_pop(L, 1);
                return;
            }
            lua_pop(L, 1);
        }
        bool is_caller = !lua_iscfunction(L, -1);
        lua_pop(L, 1);
        if (is_caller) break;
    }
    lua_pop(L, 1);
    lua_pushnil(L);
}

// Calls Lua's `require`. Pushes its results, or the error, and returns the status.
static int load_module(lua_State *L, bool is_new) {
    clua_state *state = clua_state_of(L);
    bool is_recorded = is_new && state->separates_globals;
    // A nested module sees what the module around it has done, and a prelude's module what the prelude has done.
    bool is_apart = is_recorded && state->loads == 0 && !state->is_in_prelude;
    if (is_apart) {
        clua_reset_globals(L);
        lua_replace(L, OLD_GLOBALS);
    }
    if (is_recorded) {
        clua_copy_globals(L);
        lua_replace(L, GLOBALS_BEFORE);
        push_metatable_of_globals(L);
        lua_replace(L, METATABLE_BEFORE);
    }
    // A module's changes of the libraries last as long as the module.
    bool adopts_libraries = is_recorded && state->loads == 0 && !clua_are_libraries_changed(L);
    clua_push_real_globals(L);
    clua_set_current_globals(L);
    clua_note_requirement(L, NAME);
    clua_begin_loading(L, NAME, LOADED_BEFORE);
    state->loads++;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, NAME);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    state->loads--;
    clua_end_loading(L, LOADED_BEFORE);
    if (is_new && state->loads == 0) clua_take_snapshots(L);
    if (adopts_libraries) {
        // Now, because what the body does next must not last.
        clua_adopt_libraries(L);
        clua_restore_libraries(L);
        clua_note_library_code(state);
    } else if (is_recorded && status == LUA_OK && state->libraries_are_recorded) {
        clua_adopt_module(L, NAME);
    }
    lua_pushvalue(L, CALLERS_GLOBALS);
    clua_set_current_globals(L);
    clua_modules_changed(L);
    if (!is_recorded) return status;
    int top = lua_gettop(L);
    push_metatable_of_globals(L);
    if (is_apart) restore_metatable(L);
    if (status == LUA_OK) record_changes(L, top + 1);
    if (is_apart) {
        lua_pushvalue(L, OLD_GLOBALS);
        clua_merge_globals(L);
    }
    lua_settop(L, top);
    return status;
}

// Raises the error on top. Lua's `require` puts the place of its caller before this message, but its caller is no Lua function here.
static int raise_with_place(lua_State *L) {
    lua_pushfstring(L, "module '%s' not found:", lua_tostring(L, NAME));
    size_t count;
    const char *start = lua_tolstring(L, -1, &count);
    bool is_missing = lua_type(L, -2) == LUA_TSTRING && strncmp(lua_tostring(L, -2), start, count) == 0;
    lua_pop(L, 1);
    if (is_missing) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

int clua_require_module(lua_State *L) {
    clua_state *state = clua_state_of(L);
    luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    luaL_checkstack(L, 20, NULL);
    push_environment(L);
    bool is_body = lua_istable(L, ENVIRONMENT);
    if (is_body && strcmp(lua_tostring(L, NAME), LUA_GNAME) == 0) {
        clua_fill_environment(L, ENVIRONMENT);
        return 1;
    }
    clua_push_current_globals(L);
    bool is_new = !is_loaded(L), is_recorded = is_new && state->separates_globals;
    lua_settop(L, LAST);
    if (load_module(L, is_new) != LUA_OK) return raise_with_place(L);
    if (!state->separates_globals) return lua_gettop(L) - LAST;
    if (state->is_in_prelude && state->loads == 0) {
        clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
        apply_changes(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    if (state->loads > 0 || state->is_in_prelude) {
        clua_push_real_globals(L);
        if (!is_recorded) apply_changes(L, lua_gettop(L));
        lua_pop(L, 1);
    } else if (is_body) {
        apply_to_environment(L);
    }
    return lua_gettop(L) - LAST;
}
