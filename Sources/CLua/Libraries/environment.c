#include <lua5.4/lauxlib.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Limits/stop_raising.h"

// Keys in the metatable of an environment: the table that it reads through to, and the set of names that it hides from there.
static const char base_key, hidden_key;

// A new environment contains only `_G` and reads through to its base. That is cheap, and few bodies inspect the table itself. For a body
// that may, `clua_fill_environment` copies the base, so that the body finds a plain table without a metatable, as a script does.

// Pushes a new metatable that reads from the table at `read`, and assigns new names by the value at `assign`, 0 for plain assignment.
static void push_metatable(lua_State *L, int read, int assign) {
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, read);
    lua_setfield(L, -2, "__index");
    if (assign != 0) {
        lua_pushvalue(L, assign);
        lua_setfield(L, -2, "__newindex");
    }
    lua_pushvalue(L, read);
    lua_rawsetp(L, -2, &base_key);
}

// __newindex of an environment that is not filled. The environment must own a name of the base before a script can assign nil to it. A
// prelude may also have given the globals a metatable.
static int assign_filled(lua_State *L) {
    lua_settop(L, 3);
    clua_fill_environment(L, 1);
    lua_settable(L, 1);
    return 0;
}

void clua_environment_open(lua_State *L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    int globals = lua_gettop(L);
    lua_pushvalue(L, globals);
    clua_state_of(L)->real_globals = clua_state_of(L)->current_globals = lua_topointer(L, -1);
    clua_keep(L, CLUA_KEPT_REAL_GLOBALS);

    clua_copy_globals(L);
    clua_keep(L, CLUA_KEPT_FRESH_GLOBALS);
    clua_push_weak(L, "k");
    clua_keep(L, CLUA_KEPT_FULL_ENVIRONMENTS);
    lua_pushcfunction(L, assign_filled);
    push_metatable(L, globals, globals + 1);
    // A body that gets hold of an unfilled environment must not reach the shared metatable.
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    clua_keep(L, CLUA_KEPT_BODY_METATABLE);
    lua_settop(L, globals - 1);
}

// Both fields exist already, so assigning them allocates nothing.
void clua_separate_globals(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_BODY_METATABLE);
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, &base_key);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    clua_state_of(L)->separates_globals = true;
}

void clua_push_real_globals(lua_State *L) { clua_push_kept(L, CLUA_KEPT_REAL_GLOBALS); }

void clua_push_current_globals(lua_State *L) { lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS); }

// The registry field exists already, so storing allocates nothing.
void clua_set_current_globals(lua_State *L) {
    clua_state_of(L)->current_globals = lua_topointer(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

// Creates a table with the metatable on top and with `_G` as itself. Replaces the metatable by the table.
static void push_with_metatable(lua_State *L) {
    lua_createtable(L, 0, 2);
    lua_insert(L, -2);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_pushliteral(L, "_G");
    lua_insert(L, -2);
    lua_rawset(L, -3);
}

void clua_push_environment(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_BODY_METATABLE);
    push_with_metatable(L);
    // A metatable of the globals must act on this table, not on the base.
    if (clua_state_of(L)->globals_have_metatable) clua_fill_environment(L, -1);
}

void clua_push_overlay(lua_State *L) {
    clua_push_current_globals(L);
    int current = lua_gettop(L);
    push_metatable(L, current, current);
    lua_remove(L, current);
    push_with_metatable(L);
}

// __index of an environment that hides names. Upvalues: the table that it reads through to, the set of names.
static int read_unless_hidden(lua_State *L) {
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) return 0;
    lua_settop(L, 2);
    lua_gettable(L, lua_upvalueindex(1));
    return 1;
}

// Gives the environment at `index` its own copy of its metatable, with a new set of hidden names. Pushes the set.
static void push_new_hidden_set(lua_State *L, int index) {
    lua_getmetatable(L, index);
    int old = lua_gettop(L);
    lua_createtable(L, 0, 4);
    lua_createtable(L, 0, 1);
    int metatable = old + 1, hidden = old + 2;
    lua_pushvalue(L, hidden);
    lua_rawsetp(L, metatable, &hidden_key);
    lua_rawgetp(L, old, &base_key);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, metatable, &base_key);
    lua_pushvalue(L, hidden);
    lua_pushcclosure(L, read_unless_hidden, 2);
    lua_setfield(L, metatable, "__index");
    lua_pushliteral(L, "__newindex");
    lua_rawget(L, old);
    lua_setfield(L, metatable, "__newindex");
    lua_pushvalue(L, metatable);
    lua_setmetatable(L, index);
    lua_replace(L, old);
    lua_pop(L, 1);
}

void clua_hide_global(lua_State *L) {
    int name = lua_gettop(L), environment = name - 1;
    lua_getmetatable(L, environment);
    if (lua_rawgetp(L, -1, &hidden_key) == LUA_TNIL) push_new_hidden_set(L, environment);
    lua_pushvalue(L, name);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_settop(L, environment);
}

// Whether the table at `index` is a filled environment. Needs 2 slots.
static bool is_full(lua_State *L, int index) {
    if (!clua_state_of(L)->has_full_environments) return false;
    lua_pushvalue(L, index);
    clua_push_kept(L, CLUA_KEPT_FULL_ENVIRONMENTS);
    lua_insert(L, -2);
    bool is_full = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 2);
    return is_full;
}

bool clua_is_environment(lua_State *L, int index) {
    if (lua_topointer(L, index) == clua_state_of(L)->real_globals) return true;
    if (!lua_getmetatable(L, index)) return is_full(L, index);
    bool is_marked = lua_rawgetp(L, -1, &base_key) != LUA_TNIL;
    lua_pop(L, 2);
    return is_marked || is_full(L, index);
}

// Copies the fields of `base` that `environment` lacks, except the names in the set `hidden`. All are stack indices.
static void copy_base(lua_State *L, int environment, int base, int hidden) {
    lua_pushnil(L);
    while (lua_next(L, base)) {
        int name = lua_gettop(L) - 1;
        lua_pushvalue(L, name);
        bool is_there = lua_rawget(L, environment) != LUA_TNIL;
        bool is_hidden = lua_istable(L, hidden) && (lua_pushvalue(L, name), lua_rawget(L, hidden) != LUA_TNIL);
        lua_settop(L, name + 1);
        if (is_there || is_hidden) {
            lua_pop(L, 1);
        } else {
            lua_pushvalue(L, name);
            lua_insert(L, -2);
            lua_rawset(L, environment);
        }
    }
}

void clua_fill_environment(lua_State *L, int index) {
    int environment = lua_absindex(L, index), top = lua_gettop(L);
    luaL_checkstack(L, 12, NULL);
    if (!lua_getmetatable(L, environment)) return;
    if (lua_rawgetp(L, top + 1, &base_key) == LUA_TTABLE) {
        int base = top + 2, hidden = top + 3;
        lua_rawgetp(L, top + 1, &hidden_key);
        copy_base(L, environment, base, hidden);
        clua_push_kept(L, CLUA_KEPT_FULL_ENVIRONMENTS);
        lua_pushvalue(L, environment);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
        clua_state_of(L)->has_full_environments = true;
        // A prelude may have set it. The body gets a copy, which it may change.
        if (lua_getmetatable(L, base))
            clua_push_copy(L, -1);
        else
            lua_pushnil(L);
        lua_setmetatable(L, environment);
    }
    lua_settop(L, top);
}

void clua_fill_current_environment(lua_State *L) {
    if (clua_are_globals_real(L)) return;
    clua_push_current_globals(L);
    clua_fill_environment(L, -1);
    lua_pop(L, 1);
}

void clua_adopt_global(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    lua_pushvalue(L, -2);
    lua_insert(L, -3);
    lua_rawset(L, -4);
    clua_record_global(L, lua_gettop(L));
    lua_pop(L, 2);
}

// As clua_push_copy. `count` is about the number of fields.
static void push_copy(lua_State *L, int index, int count) {
    int table = lua_absindex(L, index);
    lua_createtable(L, 0, count);
    int copy = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, copy);
    }
}

void clua_push_copy(lua_State *L, int index) { push_copy(L, index, 4); }

lua_Integer clua_count_same_fields(lua_State *L, int table, int other) {
    lua_Integer count = 0;
    lua_pushnil(L);
    for (; lua_next(L, table); count++) {
        lua_pushvalue(L, -2);
        lua_rawget(L, other);
        bool is_same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
        if (!is_same) {
            lua_pop(L, 1);
            return -1;
        }
    }
    return count;
}

void clua_copy_globals(lua_State *L) {
    enum { FRESH_GLOBALS = 40 };
    clua_push_real_globals(L);
    push_copy(L, -1, FRESH_GLOBALS);
    lua_remove(L, -2);
}

void clua_copy_changes(lua_State *L, int keys, int now, int before, int to) {
    lua_pushnil(L);
    while (lua_next(L, keys)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushvalue(L, -1);
        lua_rawget(L, now);
        lua_pushvalue(L, -3);
        lua_rawget(L, before);
        bool is_same = lua_rawequal(L, -1, -2);
        lua_pop(L, 1);
        if (is_same)
            lua_pop(L, 2);
        else
            lua_rawset(L, to);
    }
}

void clua_adopt_globals(lua_State *L) {
    int before = lua_gettop(L);
    clua_push_real_globals(L);
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    clua_copy_changes(L, before + 1, before + 1, before, before + 2);
    clua_copy_changes(L, before, before + 1, before, before + 2);
    // Environments get it from there.
    bool has_metatable = lua_getmetatable(L, before + 1);
    if (!has_metatable) lua_pushnil(L);
    lua_setmetatable(L, before + 2);
    clua_state_of(L)->globals_have_metatable = has_metatable;
    lua_settop(L, before - 1);
}

// Replaces the environment on top by the table where it looks for the global with the name at `name`. Returns false and pops the
// environment if there is no such table.
static bool next_environment(lua_State *L, int name) {
    int environment = lua_gettop(L);
    // A script may have given the real globals a metatable, and that one has no base.
    bool found = lua_getmetatable(L, environment) && lua_rawgetp(L, -1, &base_key) == LUA_TTABLE;
    if (found) lua_copy(L, -1, environment);
    if (found && lua_rawgetp(L, environment + 1, &hidden_key) == LUA_TTABLE) {
        lua_pushvalue(L, name);
        found = lua_rawget(L, -2) == LUA_TNIL;
    }
    lua_settop(L, found ? environment : environment - 1);
    return found;
}

// Stack: an environment, a name.
static int read_global(lua_State *L) {
    lua_gettable(L, 1);
    return 1;
}

// The name is on top. Pushes what a script's metatable of the globals returns for it, or nil on an error. A stop or a lack of memory is
// raised.
static void push_made_global(lua_State *L, int environment) {
    int name = lua_gettop(L);
    clua_push_real_globals(L);
    bool has_metatable = lua_getmetatable(L, -1) || (is_full(L, environment) && lua_getmetatable(L, environment));
    lua_settop(L, name);
    if (has_metatable) {
        lua_pushcfunction(L, read_global);
        lua_pushvalue(L, environment);
        lua_pushvalue(L, name);
        int status = lua_pcall(L, 2, 1, 0);
        if (status == LUA_OK) return;
        if (clua_is_stop(L, status)) clua_raise_stop(L);
        if (status == LUA_ERRMEM) lua_error(L);
        lua_settop(L, name);
    }
    lua_pushnil(L);
}

bool clua_global_differs(lua_State *L, int index) {
    int environment = lua_absindex(L, index);
    int name = lua_gettop(L);
    lua_pushnil(L);  // the value
    lua_pushvalue(L, environment);
    do {
        lua_pushvalue(L, name);
        lua_rawget(L, -2);
        lua_replace(L, name + 1);
    } while (lua_isnil(L, name + 1) && next_environment(L, name));
    lua_settop(L, name + 1);
    if (lua_isnil(L, name + 1)) {
        lua_settop(L, name);
        push_made_global(L, environment);
    }
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    lua_pushvalue(L, name);
    lua_rawget(L, -2);
    // In an environment `_G` is the environment itself, so it is not sent.
    bool differs = !lua_rawequal(L, -1, name + 1) && !lua_rawequal(L, name + 1, environment);
    lua_settop(L, name + 1);
    lua_remove(L, name);
    return differs;
}

void clua_push_changed_globals(lua_State *L) {
    int changed = lua_gettop(L) + 1, globals = changed + 1, fresh = changed + 2, name = changed + 3, value = changed + 4;
    lua_newtable(L);
    clua_push_current_globals(L);
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    lua_pushnil(L);
    while (lua_next(L, globals)) {
        lua_pushvalue(L, name);
        lua_rawget(L, fresh);
        if (!lua_rawequal(L, -1, value) && !lua_rawequal(L, value, globals) && lua_type(L, name) == LUA_TSTRING) {
            lua_pushvalue(L, name);
            lua_pushvalue(L, value);
            lua_rawset(L, changed);
        }
        lua_settop(L, name);
    }
    lua_settop(L, changed);
}
