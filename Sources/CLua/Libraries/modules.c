#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/module_loads_raising.h"
#include "Libraries/modules_raising.h"
#include "Libraries/private_tables_raising.h"

// A light userdata is the same address in every state, but only its module knows what the address means.
static bool has_identity(lua_State *L, int index) {
    int type = lua_type(L, index);
    return type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA || type == LUA_TLIGHTUSERDATA;
}

// The filter bit of the value at `index`.
static unsigned filter_bit(lua_State *L, int index) {
    return (unsigned)((uint64_t)(uintptr_t)lua_topointer(L, index) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - CLUA_FILTER_BITS));
}

// Indexes the value at `value` as the module with the name at `name`, or as its field with the key at `key` (0 for none). `table` is the
// index table; the table of fields is next to it. All are stack indices. Needs 2 slots.
static void index_value(lua_State *L, int table, int value, int name, int key) {
    unsigned bit = filter_bit(L, value);
    clua_state_of(L)->module_filter[bit / 64] |= UINT64_C(1) << bit % 64;
    lua_pushvalue(L, value);
    if (key != 0)
        lua_pushvalue(L, key);
    else
        lua_pushnil(L);
    lua_rawset(L, table + 1);  // first, so that nothing is indexed if this fails
    lua_pushvalue(L, value);
    lua_pushvalue(L, name);
    lua_rawset(L, table);
}

static bool is_in(lua_State *L, int table, int value) {
    lua_pushvalue(L, value);
    bool is_in = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return is_in;
}

// Indexes the value as the module itself, or as its field, unless it has a name already. As index_value.
static void index_new_value(lua_State *L, int table, int value, int name, int key) {
    // A module's own name takes precedence over its being a field of another module.
    if (!is_in(L, table, value) || (key == 0 && is_in(L, table + 1, value))) index_value(L, table, value, name, key);
}

// MARK: names

// Indexes the private metatables of the modules whose names are in the table at `found`.
static void index_private_tables(lua_State *L, int table, int found) {
    int top = lua_gettop(L), value = top + 2, name = top + 4, key = top + 5;
    if (clua_push_kept(L, CLUA_KEPT_PRIVATE_TABLES) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, top + 1)) {
            lua_rawgeti(L, value + 1, 1);
            lua_rawgeti(L, value + 1, 2);
            if (is_in(L, found, name) && !is_in(L, table, value)) index_value(L, table, value, name, key);
            lua_settop(L, value);
        }
    }
    lua_settop(L, top);
}

// Indexes the module at `module` by the name at `name`, unless it has a better one.
static void name_module(lua_State *L, int table, int name, int module) {
    if (!has_identity(L, module)) return;
    lua_pushvalue(L, module);
    bool has_name = lua_rawget(L, table) == LUA_TSTRING && !is_in(L, table + 1, module);
    if (!has_name || clua_is_better_name(L, name, lua_gettop(L))) index_value(L, table, module, name, 0);
    lua_pop(L, 1);
}

static bool is_named(lua_State *L, int table, int name, int module) {
    lua_pushvalue(L, module);
    lua_rawget(L, table);
    bool is_named = lua_rawequal(L, -1, name) && !is_in(L, table + 1, module);
    lua_pop(L, 1);
    return is_named;
}

// Indexes the fields of the module at `module`. A field that several modules have belongs to the one that was loaded first.
static void index_fields(lua_State *L, int table, int name, int module) {
    if (!lua_istable(L, module)) return;
    int fields = lua_gettop(L) + 1, key = fields + 1, value = fields + 2;
    // Other states have the fields that the module had when it was loaded.
    if (!clua_push_snapshot(L, module)) lua_pushvalue(L, module);
    lua_pushnil(L);
    while (lua_next(L, fields)) {
        if (has_identity(L, value) && lua_type(L, key) == LUA_TSTRING && !clua_is_path(lua_tostring(L, key))) {
            lua_pushvalue(L, value);
            bool has_owner = lua_rawget(L, table) == LUA_TSTRING && is_in(L, table + 1, value);
            if (has_owner && clua_load_number(L, name) < clua_load_number(L, lua_gettop(L)))
                index_value(L, table, value, name, key);
            else
                index_new_value(L, table, value, name, key);
        }
        lua_settop(L, key);
    }
    lua_settop(L, fields - 1);
}

// MARK: fresh states

// Few states send a value that may have a name, and an index costs more than all modules of a fresh state. So a fresh state only lists what
// the index is made from when it is first needed: scripts may have changed the modules by then. The list is an array. For each module it
// has the name and the module, then each key with its value, then false. A field that was adopted since is a table.
enum { EXPECTED_VALUES = 200, EXPECTED_ITEMS = 2 * EXPECTED_VALUES };

// Pops the value on top and appends it to the list at `list`, which has `count` items. Returns the new number.
static lua_Integer append(lua_State *L, int list, lua_Integer count) {
    lua_rawseti(L, list, ++count);
    return count;
}

static void list_modules(lua_State *L) {
    int list = lua_gettop(L) + 1, loaded = list + 1, name = list + 2, module = list + 3, key = list + 4;
    lua_Integer count = 0;
    lua_createtable(L, EXPECTED_ITEMS, 0);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    while (lua_next(L, loaded)) {
        lua_pushvalue(L, name);
        count = append(L, list, count);
        lua_pushvalue(L, module);
        count = append(L, list, count);
        lua_pushnil(L);
        while (lua_next(L, module)) {
            if (lua_type(L, key) != LUA_TSTRING) {
                lua_pop(L, 1);
                continue;
            }
            lua_pushvalue(L, key);
            count = append(L, list, count);
            count = append(L, list, count);
        }
        lua_pushboolean(L, 0);
        count = append(L, list, count);
        lua_settop(L, name);
    }
    lua_settop(L, list);
    clua_keep(L, CLUA_KEPT_MODULE_LIST);
}

void clua_modules_open(lua_State *L) {
    int base = lua_gettop(L);
    list_modules(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    lua_getfield(L, -1, "searchpath");
    clua_keep(L, CLUA_KEPT_SEARCHPATH);
    lua_getfield(L, -1, "loadlib");
    clua_keep(L, CLUA_KEPT_LOADLIB);
    lua_getglobal(L, "require");
    clua_keep(L, CLUA_KEPT_REQUIRE);
    lua_getglobal(L, LUA_STRLIBNAME);
    clua_keep(L, CLUA_KEPT_STRING_LIBRARY);
    lua_settop(L, base);
    clua_module_changes_open(L);
    clua_modules_changed(L);
}

// Pushes the index table, the table of fields and the table of known modules, all empty.
static void push_empty_index(lua_State *L) {
    lua_createtable(L, 0, EXPECTED_VALUES);
    lua_createtable(L, 0, EXPECTED_VALUES);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -3);
    lua_setmetatable(L, -3);
    lua_createtable(L, 0, 16);
}

// The first value of a module or of an adopted field is on top; it is item `i` of the list at `list`. Indexes that, and returns the number
// of its last item.
static lua_Integer index_item(lua_State *L, int list, lua_Integer i) {
    int table = list + 1, known = list + 3, name = list + 4, module = list + 5, snapshot = list + 6, key = list + 7, value = list + 8;
    if (lua_istable(L, name)) {
        for (int j = 1; j <= 3; j++) lua_rawgeti(L, name, j);
        index_new_value(L, table, name + 2, name + 1, name + 3);
        return i;
    }
    lua_rawgeti(L, list, ++i);
    lua_pushvalue(L, name);
    lua_pushvalue(L, module);
    lua_rawset(L, known);
    bool is_environment = lua_topointer(L, module) == clua_state_of(L)->real_globals;
    if (has_identity(L, module) && !is_environment) index_new_value(L, table, module, name, 0);
    lua_newtable(L);
    while (lua_rawgeti(L, list, ++i) == LUA_TSTRING) {
        lua_rawgeti(L, list, ++i);
        if (has_identity(L, value)) index_new_value(L, table, value, name, key);
        lua_rawset(L, snapshot);
    }
    if (!is_environment) clua_keep_snapshot(L, module, snapshot);
    return i;
}

// Makes the index from the list on top, and pops the list.
static void make_index(lua_State *L) {
    int list = lua_gettop(L), known = list + 3;
    push_empty_index(L);
    for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
        i = index_item(L, list, i);
        lua_settop(L, known);
    }
    lua_settop(L, known);
    clua_keep(L, CLUA_KEPT_MODULES_KNOWN);
    clua_keep(L, CLUA_KEPT_MODULE_FIELDS);
    clua_keep(L, CLUA_KEPT_MODULE_INDEX);
    lua_pushboolean(L, 0);
    clua_keep(L, CLUA_KEPT_MODULE_LIST);
    lua_settop(L, list - 1);
}

// Appends an adopted field to the list at `list`. All are stack indices. Needs 4 slots.
static void list_field(lua_State *L, int list, int module, int key, int value) {
    lua_pushvalue(L, module);
    lua_pushvalue(L, value);
    lua_pushvalue(L, key);
    clua_pack(L, 3);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

void clua_modules_adopt(lua_State *L, const char *module, int key, int value) {
    key = lua_absindex(L, key);
    value = lua_absindex(L, value);
    int name = lua_gettop(L) + 1, table = name + 1;
    lua_pushstring(L, module);
    if (clua_push_kept(L, CLUA_KEPT_MODULE_LIST) == LUA_TTABLE) {
        list_field(L, table, name, key, value);
    } else {
        lua_pop(L, 1);
        clua_push_kept(L, CLUA_KEPT_MODULE_INDEX);
        clua_push_kept(L, CLUA_KEPT_MODULE_FIELDS);
        index_value(L, table, value, name, key);
    }
    lua_settop(L, name - 1);
}

void clua_modules_changed(lua_State *L) { clua_state_of(L)->modules_changed = true; }

// Pushes the file where `require` finds the module with the name at `name`. Returns false and pushes nothing if there is none.
static bool push_file(lua_State *L, int name, const char *path_name) {
    int base = lua_gettop(L);
    clua_push_kept(L, CLUA_KEPT_SEARCHPATH);
    lua_pushvalue(L, name);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    lua_remove(L, -2);
    bool found = false;
    if (lua_istable(L, -1) && lua_getfield(L, -1, path_name) == LUA_TSTRING) {
        lua_remove(L, -2);
        lua_call(L, 2, 1);
        found = lua_type(L, -1) == LUA_TSTRING;
    }
    lua_settop(L, found ? base + 1 : base);
    return found;
}

// Pushes the C library of the root of the module: `cjson.safe` is in cjson.so. Returns false and pushes nothing if there is none.
static bool push_root_file(lua_State *L, int name) {
    const char *text = lua_tostring(L, name), *dot = strchr(text, '.');
    if (dot == NULL) return false;
    lua_pushlstring(L, text, (size_t)(dot - text));
    bool found = push_file(L, lua_gettop(L), "cpath");
    lua_remove(L, found ? -2 : -1);
    return found;
}

bool clua_push_module_file(lua_State *L, int name) {
    return push_file(L, name, "path") || push_file(L, name, "cpath") || push_root_file(L, name);
}

// Whether the C library of the module's root contains it, too.
static bool is_in_root(lua_State *L, int name) {
    int base = lua_gettop(L);
    const char *text = lua_tostring(L, name);
    bool found = push_root_file(L, name);
    if (found) {
        clua_push_kept(L, CLUA_KEPT_LOADLIB);
        lua_insert(L, -2);
        lua_pushliteral(L, "luaopen_");
        luaL_gsub(L, text, ".", "_");
        lua_concat(L, 2);
        lua_call(L, 2, 1);
        found = lua_isfunction(L, -1);
    }
    lua_settop(L, base);
    return found;
}

// Whether the host's loader has found the module with the name at `name`.
static bool is_of_host(lua_State *L, int name) {
    bool is_of_host = false;
    if (clua_push_kept(L, CLUA_KEPT_HOST_MODULES) == LUA_TTABLE) {
        lua_pushvalue(L, name);
        is_of_host = lua_rawget(L, -2) != LUA_TNIL;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return is_of_host;
}

// Whether `package.preload` has a loader of the module that every worker has, too.
static bool is_preloaded(lua_State *L, int name) {
    bool is_of_worker = clua_state_of(L)->separates_globals, is_preloaded = false;
    if (is_of_worker)
        clua_push_kept(L, CLUA_KEPT_LOADERS);
    else
        luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    if (lua_istable(L, -1)) {
        lua_pushvalue(L, name);
        is_preloaded = lua_rawget(L, -2) == LUA_TFUNCTION && !lua_iscfunction(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return is_preloaded;
}

// Whether another state with the same settings and the same host would find the module, too.
static bool is_found(lua_State *L, int name) {
    if (is_of_host(L, name) || is_preloaded(L, name)) return true;
    int base = lua_gettop(L);
    bool found = push_file(L, name, "path") || push_file(L, name, "cpath") || is_in_root(L, name);
    lua_settop(L, base);
    return found;
}

void clua_modules_refresh(lua_State *L) {
    int base = lua_gettop(L);
    if (clua_push_kept(L, CLUA_KEPT_MODULE_LIST) == LUA_TTABLE) make_index(L);
    lua_settop(L, base);
    clua_state_of(L)->modules_changed = false;
    clua_push_kept(L, CLUA_KEPT_MODULE_INDEX);
    clua_push_kept(L, CLUA_KEPT_MODULE_FIELDS);
    clua_push_kept(L, CLUA_KEPT_MODULES_KNOWN);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_newtable(L);
    int table = base + 1, known = base + 3, loaded = base + 4, found = base + 5;
    // Fields are indexed after all modules have their names.
    for (int pass = 0; pass < 2; pass++) {
        lua_pushnil(L);
        while (lua_next(L, loaded)) {
            int name = base + 6, module = base + 7;
            lua_pushvalue(L, name);
            lua_rawget(L, known);
            bool is_new = lua_type(L, name) == LUA_TSTRING && !lua_rawequal(L, -1, module);
            lua_pop(L, 1);
            if (is_new && pass == 0 && is_found(L, name)) {
                lua_pushboolean(L, 1);
                lua_setfield(L, found, lua_tostring(L, name));
                name_module(L, table, name, module);
            }
            if (is_new && pass == 1) {
                lua_pushvalue(L, name);
                lua_pushvalue(L, module);
                lua_rawset(L, known);
                if (is_named(L, table, name, module)) index_fields(L, table, name, module);
            }
            lua_settop(L, name);
        }
    }
    index_private_tables(L, table, found);
    lua_settop(L, base);
}

static bool may_be_indexed(lua_State *L, int value) {
    unsigned bit = filter_bit(L, value);
    return (clua_state_of(L)->module_filter[bit / 64] >> bit % 64 & 1) != 0;
}

bool clua_may_travel_by_name(lua_State *L, int index) {
    if (clua_state_of(L)->modules_changed) return true;
    if (!may_be_indexed(L, index)) return false;
    int value = lua_absindex(L, index);
    clua_push_kept(L, CLUA_KEPT_MODULE_INDEX);
    lua_pushvalue(L, value);
    bool is_indexed = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 2);
    return is_indexed;
}

bool clua_module_name(lua_State *L, int index) {
    int value = lua_absindex(L, index);
    if (clua_state_of(L)->modules_changed) {
        clua_need_stack(L, 16);
        clua_modules_refresh(L);
    }
    if (!may_be_indexed(L, value)) return false;
    clua_push_kept(L, CLUA_KEPT_MODULE_INDEX);
    lua_pushvalue(L, value);
    bool is_indexed = lua_rawget(L, -2) != LUA_TNIL;
    lua_remove(L, -2);
    if (!is_indexed) {
        lua_pop(L, 1);
        return false;
    }
    clua_push_kept(L, CLUA_KEPT_MODULE_FIELDS);
    lua_pushvalue(L, value);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    return true;
}

void clua_push_chunk(lua_State *L, int name) {
    clua_push_kept(L, CLUA_KEPT_CHUNKS);
    lua_pushvalue(L, name);
    if (lua_rawget(L, -2) == LUA_TTABLE) {
        lua_rawgeti(L, -1, 1);
        lua_remove(L, -2);
    }
    lua_remove(L, -2);
}

void clua_push_loaded(lua_State *L, int name) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

void clua_push_module(lua_State *L, int name, int key) {
    clua_push_loaded(L, name);
    // The module of another state's name may be one that this body has to load for itself.
    if (lua_isnil(L, -1) || !clua_are_globals_real(L)) {
        lua_pop(L, 1);
        clua_push_kept(L, CLUA_KEPT_REQUIRE);
        lua_pushvalue(L, name);
        lua_call(L, 1, 1);
    }
    if (key == 0) return;
    if (clua_is_path(lua_tostring(L, key))) {
        if (!clua_push_private_table(L, lua_tostring(L, key)))
            luaL_error(L, "module '%s' has no metatable at '%s' here", lua_tostring(L, name), lua_tostring(L, key));
        lua_remove(L, -2);
        return;
    }
    if (!lua_istable(L, -1))
        luaL_error(L, "module '%s' is a %s here, not a table", lua_tostring(L, name), luaL_typename(L, -1));
    lua_pushvalue(L, key);
    lua_gettable(L, -2);
    if (lua_isnil(L, -1))
        luaL_error(L, "module '%s' has no field '%s' here; require the module that sets it in opscript.prelude", lua_tostring(L, name),
                   lua_tostring(L, key));
    lua_remove(L, -2);
}
