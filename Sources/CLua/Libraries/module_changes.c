#include "Libraries/module_changes_raising.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"

// A larger table in a field of a module would be compared for each operation.
enum { MOST_FIELDS = 256 };

// The key of the name of the module that is being loaded, in the table of requirements.
static const char loading_key;

void clua_module_changes_open(lua_State *L) {
    int snapshots = lua_gettop(L) + 1, requirements = snapshots + 1;
    clua_push_weak(L, "k");
    lua_newtable(L);
    // The libraries of a fresh state get their snapshots later; see modules.c.
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pushvalue(L, -2);
        lua_pushboolean(L, 0);
        lua_rawset(L, requirements);
        lua_pushboolean(L, 0);
        lua_rawset(L, snapshots);
    }
    lua_settop(L, requirements);
    clua_keep(L, CLUA_KEPT_REQUIREMENTS);
    clua_keep(L, CLUA_KEPT_SNAPSHOTS);
}

// MARK: snapshots

bool clua_is_compared(lua_State *L, int table) {
    int count = 0;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        if (++count > MOST_FIELDS) {
            lua_pop(L, 1);
            return false;
        }
    }
    return true;
}

// Makes a snapshot of the value at `value` if it is a table that has none. `snapshots` is a stack index, too.
static bool take_snapshot(lua_State *L, int snapshots, int value) {
    if (!lua_istable(L, value) || clua_is_environment(L, value)) return false;
    lua_pushvalue(L, value);
    bool is_known = lua_rawget(L, snapshots) != LUA_TNIL;
    lua_pop(L, 1);
    if (is_known) return false;
    lua_pushvalue(L, value);
    clua_push_copy(L, value);
    lua_rawset(L, snapshots);
    return true;
}

void clua_take_snapshots(lua_State *L) {
    int snapshots = lua_gettop(L) + 1, module = snapshots + 3, field = module + 2;
    clua_need_stack(L, 16);
    clua_push_kept(L, CLUA_KEPT_SNAPSHOTS);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (take_snapshot(L, snapshots, module)) {
            lua_pushnil(L);
            while (lua_next(L, module)) {
                if (lua_istable(L, field) && clua_is_compared(L, field)) take_snapshot(L, snapshots, field);
                lua_settop(L, field - 1);
            }
        }
        lua_settop(L, module - 1);
    }
    lua_settop(L, snapshots - 1);
}

void clua_keep_snapshot(lua_State *L, int library, int snapshot) {
    clua_push_kept(L, CLUA_KEPT_SNAPSHOTS);
    lua_pushvalue(L, library);
    lua_pushvalue(L, snapshot);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

bool clua_push_snapshot(lua_State *L, int table) {
    table = lua_absindex(L, table);
    clua_push_kept(L, CLUA_KEPT_SNAPSHOTS);
    lua_pushvalue(L, table);
    bool is_there = lua_rawget(L, -2) == LUA_TTABLE;
    lua_remove(L, -2);
    if (!is_there) lua_pop(L, 1);
    return is_there;
}

// MARK: modules that return the table of another one

// Stack: a key, a value. `context` is the stack index of a table whose changes are looked at; the snapshot and the table of earlier changes follow.
static void note_earlier_change(lua_State *L, void *context) {
    int table = *(const int *)context, key = lua_gettop(L) - 1;
    lua_pushvalue(L, table);
    if (lua_rawget(L, table + 2) == LUA_TNIL) {
        lua_newtable(L);
        lua_pushvalue(L, table);
        lua_pushvalue(L, -2);
        lua_rawset(L, table + 2);
    }
    lua_pushvalue(L, key);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
}

// Stack and context as above. Makes a change that is not an earlier one part of the snapshot.
static void absorb_change(lua_State *L, void *context) {
    int table = *(const int *)context, key = lua_gettop(L) - 1;
    lua_pushvalue(L, table);
    if (lua_rawget(L, table + 2) == LUA_TTABLE) {
        lua_pushvalue(L, key);
        if (lua_rawget(L, -2) != LUA_TNIL) return;
    }
    lua_pushvalue(L, key);
    lua_pushvalue(L, key + 1);
    lua_rawset(L, table + 1);
}

void clua_note_earlier_changes(lua_State *L) {
    int earlier = lua_gettop(L) + 1, snapshots = earlier + 1, table = earlier + 2;
    clua_need_stack(L, 20);
    lua_newtable(L);
    clua_push_kept(L, CLUA_KEPT_SNAPSHOTS);
    lua_pushnil(L);
    while (lua_next(L, snapshots)) {
        lua_pushvalue(L, earlier);
        if (lua_istable(L, table + 1) && clua_is_compared(L, table)) clua_find_changes(L, table, table + 1, note_earlier_change, &table);
        lua_settop(L, table);
    }
    lua_settop(L, earlier);
    clua_keep(L, CLUA_KEPT_EARLIER_CHANGES);
}

void clua_forget_earlier_changes(lua_State *L) {
    lua_pushboolean(L, 0);
    clua_keep(L, CLUA_KEPT_EARLIER_CHANGES);
}

// Whether the module at `module` is a library, which other states have without the changes of a loader.
static bool is_library(lua_State *L, int module) {
    int top = lua_gettop(L), requirements = top + 1, name = top + 2;
    bool is_library = false;
    clua_push_kept(L, CLUA_KEPT_REQUIREMENTS);
    lua_pushnil(L);
    while (!is_library && lua_next(L, requirements)) {
        if (lua_isboolean(L, -1)) {
            clua_push_loaded(L, name);
            is_library = lua_rawequal(L, -1, module);
        }
        lua_settop(L, name);
    }
    lua_settop(L, top);
    return is_library;
}

// Stack: a value. Makes its new changes part of its snapshot, if it has one, and pops it.
static void renew(lua_State *L) {
    int table = lua_gettop(L);
    if (lua_istable(L, table) && clua_is_compared(L, table) && clua_push_snapshot(L, table) && clua_push_kept(L, CLUA_KEPT_EARLIER_CHANGES) == LUA_TTABLE)
        clua_find_changes(L, table, table + 1, absorb_change, &table);
    lua_settop(L, table - 1);
}

void clua_renew_snapshot(lua_State *L, int name) {
    int module = lua_gettop(L) + 1;
    clua_need_stack(L, 24);
    clua_push_loaded(L, name);
    if (lua_istable(L, module) && clua_push_snapshot(L, module) && !is_library(L, module)) {
        lua_settop(L, module);
        lua_pushnil(L);
        while (lua_next(L, module)) renew(L);
        lua_pushvalue(L, module);
        renew(L);
    }
    lua_settop(L, module - 1);
}

// MARK: requirements

void clua_note_requirement(lua_State *L, int name) {
    int top = lua_gettop(L), requirements = top + 1, loading = top + 2;
    clua_push_kept(L, CLUA_KEPT_REQUIREMENTS);
    if (lua_rawgetp(L, requirements, &loading_key) != LUA_TNIL) {
        lua_pushvalue(L, loading);
        if (lua_rawget(L, requirements) != LUA_TTABLE) {
            lua_pop(L, 1);
            lua_newtable(L);
            lua_pushvalue(L, loading);
            lua_pushvalue(L, -2);
            lua_rawset(L, requirements);
        }
        lua_pushvalue(L, name);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
    }
    lua_settop(L, top);
}

static void set_loading(lua_State *L, int name) {
    clua_push_kept(L, CLUA_KEPT_REQUIREMENTS);
    lua_pushvalue(L, name);
    lua_rawsetp(L, -2, &loading_key);
    lua_pop(L, 1);
}

void clua_begin_loading(lua_State *L, int name, int before) {
    clua_push_kept(L, CLUA_KEPT_REQUIREMENTS);
    lua_rawgetp(L, -1, &loading_key);
    lua_replace(L, before);
    lua_pop(L, 1);
    set_loading(L, name);
}

void clua_end_loading(lua_State *L, int before) { set_loading(L, before); }

void clua_push_requirements(lua_State *L, int name) {
    name = lua_absindex(L, name);
    clua_push_kept(L, CLUA_KEPT_REQUIREMENTS);
    lua_pushvalue(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

// MARK: comparing

bool clua_is_method_changed(lua_State *L, const char *name, size_t count) {
    int top = lua_gettop(L), library = top + 1, snapshot = top + 2;
    bool is_changed = false;
    if (clua_push_kept(L, CLUA_KEPT_STRING_LIBRARY) == LUA_TTABLE && clua_push_snapshot(L, library)) {
        lua_pushlstring(L, name, count);
        lua_pushvalue(L, -1);
        lua_rawget(L, library);
        lua_insert(L, -2);
        lua_rawget(L, snapshot);
        is_changed = !lua_rawequal(L, -1, -2);
    }
    lua_settop(L, top);
    return is_changed;
}

void clua_find_changes(lua_State *L, int table, int snapshot, void (*found)(lua_State *L, void *context), void *context) {
    int top = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pushvalue(L, top + 1);
        lua_rawget(L, snapshot);
        bool is_same = lua_rawequal(L, -1, -2);
        lua_settop(L, top + 2);
        if (!is_same) found(L, context);
        lua_settop(L, top + 1);
    }
    lua_pushnil(L);
    while (lua_next(L, snapshot)) {
        lua_pushvalue(L, top + 1);
        if (lua_rawget(L, table) == LUA_TNIL) {
            lua_replace(L, top + 2);
            found(L, context);
        }
        lua_settop(L, top + 1);
    }
    lua_settop(L, top);
}
