// The modules of an operation.
//
// An operation has one module under a name, as a script does. It is the shared one, if that was what the operation would have loaded when it
// first got the module, or one of its own.
#include "Calls/own_modules_raising.h"

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/modules_raising.h"

// A record in CLUA_KEPT_SHARED_MODULES: the module, the set of what it reads, and the data of its loader.
enum { MODULE = 1, READS, DATA };

void clua_own_modules_open(lua_State *L) {
    lua_newtable(L);
    clua_keep(L, CLUA_KEPT_SHARED_MODULES);
    clua_push_weak(L, "k");
    clua_keep(L, CLUA_KEPT_OWN_MODULES);
}

// MARK: shared modules

// Pushes the field of the record of the module with the name at `name`. Returns false, and pushes nothing, if operations do not share it.
static bool push_shared(lua_State *L, int name, int field) {
    clua_push_kept(L, CLUA_KEPT_SHARED_MODULES);
    lua_pushvalue(L, name);
    bool is_shared = lua_rawget(L, -2) == LUA_TTABLE;
    if (is_shared) {
        lua_rawgeti(L, -1, field);
        lua_replace(L, -3);
        lua_pop(L, 1);
    } else {
        lua_pop(L, 2);
    }
    return is_shared;
}

bool clua_push_reads(lua_State *L, int name) { return push_shared(L, name, READS); }

bool clua_push_data(lua_State *L, int name) { return push_shared(L, name, DATA); }

void clua_share_module(lua_State *L, int name, int reads, int data) {
    // An operation that has loaded the module again has that one to itself.
    if (push_shared(L, name, MODULE)) return lua_pop(L, 1);
    clua_push_kept(L, CLUA_KEPT_SHARED_MODULES);
    lua_pushvalue(L, name);
    clua_push_loaded(L, name);
    lua_pushvalue(L, reads);
    lua_pushvalue(L, data);
    clua_pack(L, 3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

bool clua_has_own(lua_State *L, int environment, int reads) {
    if (clua_has_changed_field(L, reads)) return true;
    int top = lua_gettop(L), fresh = top + 1, name = top + 2, value = top + 3;
    bool has_own = false;
    clua_push_kept(L, CLUA_KEPT_FRESH_GLOBALS);
    lua_pushnil(L);
    while (!has_own && lua_next(L, environment)) {
        lua_pushvalue(L, name);
        if (lua_rawget(L, reads) != LUA_TNIL) {
            lua_pushvalue(L, name);
            lua_rawget(L, fresh);
            has_own = !lua_rawequal(L, -1, value);
        }
        lua_settop(L, name);
    }
    lua_settop(L, top);
    return has_own;
}

// MARK: the operation's modules

// Pushes the table of the modules that the operation has, by their names.
static void push_modules(lua_State *L, int environment) {
    clua_push_kept(L, CLUA_KEPT_OWN_MODULES);
    lua_pushvalue(L, environment);
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, environment);
        lua_pushvalue(L, -2);
        lua_rawset(L, -4);
    }
    lua_remove(L, -2);
}

void clua_note_module(lua_State *L, int environment, int name, int module) {
    push_modules(L, environment);
    lua_pushvalue(L, name);
    lua_pushvalue(L, module);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

bool clua_has_had_module(lua_State *L, int environment, int name) {
    push_modules(L, environment);
    lua_pushvalue(L, name);
    bool has_had = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    lua_pushvalue(L, name);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return has_had;
}

// Pushes an array of the names of the shared modules that the operation has. Returns their number.
static lua_Integer push_shared_names(lua_State *L, int environment) {
    int list = lua_gettop(L) + 1, modules = list + 1, name = list + 2, module = list + 3;
    lua_Integer count = 0;
    lua_newtable(L);
    push_modules(L, environment);
    lua_pushnil(L);
    while (lua_next(L, modules)) {
        bool is_shared = push_shared(L, name, MODULE) && lua_rawequal(L, -1, module);
        lua_settop(L, name);
        if (!is_shared) continue;
        lua_pushvalue(L, name);
        lua_rawseti(L, list, ++count);
    }
    lua_settop(L, list);
    return count;
}

// Whether a shared module that the operation has required the one with the name at `module_name` while it was loaded.
static bool has_required(lua_State *L, int environment, int module_name) {
    int list = lua_gettop(L) + 1, seen = list + 1, name = list + 2;
    lua_Integer count = push_shared_names(L, environment);
    lua_newtable(L);
    bool is_found = false;
    while (count > 0 && !is_found) {
        lua_rawgeti(L, list, count--);
        is_found = lua_rawequal(L, name, module_name);
        lua_pushvalue(L, name);
        if (lua_rawget(L, seen) == LUA_TNIL) {
            lua_pushvalue(L, name);
            lua_pushboolean(L, 1);
            lua_rawset(L, seen);
            clua_push_requirements(L, name);
            if (!lua_istable(L, -1)) lua_newtable(L);
            lua_pushnil(L);
            while (lua_next(L, -2)) {
                lua_pop(L, 1);
                lua_pushvalue(L, -1);
                lua_rawseti(L, list, ++count);
            }
        }
        lua_settop(L, seen);
    }
    lua_settop(L, list - 1);
    return is_found;
}

// Whether the operation has the module at `module` under that name.
static bool has_module(lua_State *L, int environment, int name, int module) {
    push_modules(L, environment);
    lua_pushvalue(L, name);
    lua_rawget(L, -2);
    bool has_module = lua_rawequal(L, -1, module);
    lua_pop(L, 2);
    return has_module;
}

bool clua_module_fits(lua_State *L, int environment, int name, bool *is_new) {
    int module = lua_gettop(L);
    *is_new = false;
    // Another module than the shared one is the operation's own.
    bool is_shared = push_shared(L, name, MODULE) && lua_rawequal(L, module, -1), fits = true;
    if (is_shared && !has_module(L, environment, name, module)) {
        *is_new = !has_required(L, environment, name);
        push_shared(L, name, READS);
        fits = !*is_new || !clua_has_own(L, environment, lua_gettop(L));
        if (fits) clua_note_module(L, environment, name, module);
    }
    lua_settop(L, module);
    return fits;
}
