// Keeps a body from changing the libraries for the bodies that run later in the same state: their tables, the default files of `io`, and
// whether the collector runs.
//
// The tables of the libraries are the same for all bodies of a worker, because anything between them and a body would make each call of a
// library function slower. So a record says what they contain, and they are restored before a body runs if code that may have changed them
// has run since. Code that only uses functions of libraries by name, as most bodies, cannot change them (`may_change_library` in
// Transfer/chunk.c) and costs nothing.
#include "Libraries/isolation_raising.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"

// The record is an array: for each table, itself, a copy of it, the number of its fields, and its metatable or false. The tables include the
// state's own globals, which a body reaches through `package.loaded`. Then the metatables of the basic types or false, the default files, and
// whether the collector runs. Under each table as a key, the record has its position.
enum { TABLE = 1, COPY, FIELD_COUNT, METATABLE, PER_TABLE = METATABLE };

// The number of basic types whose metatables a record has.
enum { BASIC_TYPES = 7 };

// Where Lua's `io` library keeps its default files.
static const char *const default_files[] = {"_IO_input", "_IO_output", NULL};

// Pushes a value of each type whose metatable all values share.
static void push_basic_values(lua_State *L) {
    lua_pushnil(L);
    lua_pushboolean(L, 0);
    lua_pushinteger(L, 0);
    lua_pushliteral(L, "");
    lua_pushcfunction(L, clua_restore_libraries);
    lua_pushthread(L);
    lua_pushlightuserdata(L, L);
}

static void push_metatable(lua_State *L, int index) {
    if (!lua_getmetatable(L, index)) lua_pushboolean(L, 0);
}

// MARK: recording

// Stack: the record, a table. Adds the table to the record, unless it is there, and pops it.
static void record_table(lua_State *L, int record) {
    int table = lua_gettop(L);
    lua_pushvalue(L, table);
    if (!lua_istable(L, table) || lua_rawget(L, record) != LUA_TNIL) {
        lua_settop(L, table - 1);
        return;
    }
    lua_Integer next = (lua_Integer)lua_rawlen(L, record), count = 0;
    lua_newtable(L);
    int copy = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, copy);
        count++;
    }
    lua_pushvalue(L, table);
    lua_pushinteger(L, next);
    lua_rawset(L, record);
    lua_pushvalue(L, table);
    lua_rawseti(L, record, next + TABLE);
    lua_pushvalue(L, copy);
    lua_rawseti(L, record, next + COPY);
    lua_pushinteger(L, count);
    lua_rawseti(L, record, next + FIELD_COUNT);
    push_metatable(L, table);
    lua_rawseti(L, record, next + METATABLE);
    lua_settop(L, table - 1);
}

// Records the table at `library`, and the tables in its fields: classes, or what `package` holds.
static void record_library(lua_State *L, int record, int library) {
    lua_pushvalue(L, library);
    record_table(L, record);
    lua_pushnil(L);
    while (lua_next(L, library)) {
        bool is_own = lua_istable(L, -1);
        if (is_own)
            record_table(L, record);
        else
            lua_pop(L, 1);
    }
}

// Pushes a record of the present contents. Reserves its own slots.
static void push_record(lua_State *L) {
    luaL_checkstack(L, 20, NULL);
    static const char *const names[] = {"coroutine",     "debug", "io",     "math",  "opscript", "opscript.fs",
                                        "opscript.json", "os",    "string", "table", "utf8",     NULL};
    int top = lua_gettop(L), record = top + 1, loaded = top + 2;
    lua_createtable(L, 256, 64);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (const char *const *name = names; *name != NULL; name++) {
        if (lua_getfield(L, loaded, *name) == LUA_TTABLE) record_library(L, record, lua_gettop(L));
        lua_settop(L, loaded);
    }
    if (lua_getfield(L, loaded, LUA_LOADLIBNAME) == LUA_TTABLE) {
        record_library(L, record, lua_gettop(L));  // with `loaded`, `preload` and `searchers`
    }
    lua_settop(L, loaded);
    // Untrusted scripts must not find each other's changes in modules of the host either.
    if (clua_state_of(L)->checks_libraries_always) {
        lua_pushnil(L);
        while (lua_next(L, loaded)) {
            if (lua_istable(L, -1) && lua_topointer(L, -1) != clua_state_of(L)->real_globals) record_library(L, record, lua_gettop(L));
            lua_settop(L, loaded + 1);
        }
    }
    lua_settop(L, loaded);
    // Outside of a sandbox, the functions of preludes and modules may keep values there.
    if (clua_state_of(L)->checks_libraries_always) {
        clua_push_real_globals(L);
        record_table(L, record);
    }
    luaL_getmetatable(L, LUA_FILEHANDLE);
    if (lua_istable(L, -1)) record_library(L, record, lua_gettop(L));
    lua_settop(L, loaded);
    push_basic_values(L);
    for (int i = 1; i <= BASIC_TYPES; i++) {
        push_metatable(L, loaded + i);
        if (lua_istable(L, -1)) {
            lua_pushvalue(L, -1);
            record_table(L, record);
        }
        lua_settop(L, loaded + BASIC_TYPES + 1);
        lua_pop(L, 1);
    }
    lua_Integer next = (lua_Integer)lua_rawlen(L, record);
    for (int i = 1; i <= BASIC_TYPES; i++) {
        push_metatable(L, loaded + i);
        lua_rawseti(L, record, next + i);
    }
    next += BASIC_TYPES;
    for (const char *const *name = default_files; *name != NULL; name++) {
        if (lua_getfield(L, LUA_REGISTRYINDEX, *name) == LUA_TNIL) lua_pushboolean(L, 0);
        lua_rawseti(L, record, ++next);
    }
    lua_pushboolean(L, lua_gc(L, LUA_GCISRUNNING));
    lua_rawseti(L, record, next + 1);
    lua_settop(L, record);
}

static void record_libraries(lua_State *L) {
    push_record(L);
    clua_keep(L, CLUA_KEPT_LIBRARIES);
    clua_state_of(L)->libraries_are_recorded = true;
    clua_state_of(L)->libraries_may_differ = false;
}

// MARK: comparing and restoring

// Pushes the table at this position of the record, and its copy. Returns false, and pushes nothing, after the last table.
static bool push_recorded(lua_State *L, int record, lua_Integer position) {
    lua_rawgeti(L, record, position + TABLE);
    lua_rawgeti(L, record, position + COPY);
    bool is_table = lua_istable(L, -1);
    if (!is_table) lua_pop(L, 2);
    return is_table;
}

static void restore_fields(lua_State *L, int table, int copy) {
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushvalue(L, -1);
        lua_rawget(L, copy);
        lua_rawset(L, table);
    }
    lua_pushnil(L);
    while (lua_next(L, copy)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, table);
    }
}

// Whether the metatable of the value at `value` is the one on top, or false for none. Restores it if `restores`. Pops it.
static bool has_same_metatable(lua_State *L, int value, bool restores) {
    push_metatable(L, value);
    bool is_same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (is_same || !restores) {
        lua_pop(L, 1);
        return is_same;
    }
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    lua_setmetatable(L, value);
    return is_same;
}

// Whether the default files and the collector are what the record has from position `first` on. Restores them if `restores`.
static bool has_same_settings(lua_State *L, int record, lua_Integer first, bool restores) {
    bool are_same = true;
    lua_Integer i = first;
    for (const char *const *name = default_files; *name != NULL; name++) {
        // False if the host has removed the library.
        if (lua_rawgeti(L, record, i++) == LUA_TUSERDATA) {
            lua_getfield(L, LUA_REGISTRYINDEX, *name);
            are_same &= lua_rawequal(L, -1, -2);
            lua_pop(L, 1);
            if (restores) {
                lua_pushvalue(L, -1);
                lua_setfield(L, LUA_REGISTRYINDEX, *name);
            }
        }
        lua_pop(L, 1);
    }
    lua_rawgeti(L, record, i);
    bool is_stopped = lua_toboolean(L, -1) && !lua_gc(L, LUA_GCISRUNNING);
    if (is_stopped && restores) lua_gc(L, LUA_GCRESTART);
    lua_pop(L, 1);
    return are_same && !is_stopped;
}

// Whether the libraries are as in the record on top, which this function pops. Restores them if `restores`. Reserves its own slots.
static bool compare_with(lua_State *L, bool restores) {
    int record = lua_gettop(L), top = record - 1, table = record + 1, copy = record + 2;
    bool are_same = true;
    luaL_checkstack(L, 20, NULL);
    lua_Integer i = 0;
    for (; push_recorded(L, record, i); i += PER_TABLE) {
        lua_rawgeti(L, record, i + FIELD_COUNT);
        bool is_same = clua_count_same_fields(L, table, copy) == lua_tointeger(L, -1);
        if (!is_same && restores) restore_fields(L, table, copy);
        lua_rawgeti(L, record, i + METATABLE);
        is_same &= has_same_metatable(L, table, restores);
        are_same &= is_same;
        lua_settop(L, record);
    }
    push_basic_values(L);
    for (int value = 1; value <= BASIC_TYPES; value++) {
        lua_rawgeti(L, record, i + value);
        are_same &= has_same_metatable(L, record + value, restores);
    }
    are_same &= has_same_settings(L, record, i + BASIC_TYPES + 1, restores);
    lua_settop(L, top);
    return are_same;
}

// As compare_with for the record of the state.
static bool compare(lua_State *L, bool restores) {
    luaL_checkstack(L, 1, NULL);
    clua_push_kept(L, CLUA_KEPT_LIBRARIES);
    return compare_with(L, restores);
}

// MARK: changes that arrive with a body

void clua_change_field(lua_State *L, int table) {
    int value = lua_gettop(L), key = value - 1;
    if (lua_isnil(L, key) || !lua_rawequal(L, key, key)) return lua_settop(L, key - 1);
    if (clua_push_kept(L, CLUA_KEPT_CHANGED_FIELDS) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        clua_keep(L, CLUA_KEPT_CHANGED_FIELDS);
    }
    // An array: for each field a table of the module's table, the key and the former value.
    lua_pushvalue(L, table);
    lua_pushvalue(L, key);
    lua_pushvalue(L, key);
    lua_rawget(L, table);
    clua_pack(L, 3);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_settop(L, value);
    lua_rawset(L, table);
    clua_note_library_code(clua_state_of(L));
}

void clua_undo_changes(lua_State *L) {
    int top = lua_gettop(L), changes = top + 1, change = top + 2;
    clua_need_stack(L, 8);
    if (clua_push_kept(L, CLUA_KEPT_CHANGED_FIELDS) == LUA_TTABLE) {
        lua_pushboolean(L, 0);
        clua_keep(L, CLUA_KEPT_CHANGED_FIELDS);
        for (lua_Integer i = (lua_Integer)lua_rawlen(L, changes); i >= 1; i--) {
            lua_rawgeti(L, changes, i);
            for (int j = 1; j <= 3; j++) lua_rawgeti(L, change, j);
            lua_rawset(L, change + 1);
            lua_settop(L, changes);
        }
    }
    lua_settop(L, top);
}

// Whether the set at `reads` has the field with the name on top of what has the name below it. Pops both.
static bool reads_field(lua_State *L, int reads) {
    int name = lua_gettop(L) - 1;
    bool is_read = false;
    if (lua_type(L, name) == LUA_TSTRING && lua_type(L, name + 1) == LUA_TSTRING) {
        lua_pushfstring(L, "%s.%s", lua_tostring(L, name), lua_tostring(L, name + 1));
        lua_pushfstring(L, "%s.*", lua_tostring(L, name));
        is_read = lua_rawget(L, reads) != LUA_TNIL;
        lua_pop(L, 1);
        is_read |= lua_rawget(L, reads) != LUA_TNIL;
    }
    lua_settop(L, name - 1);
    return is_read;
}

bool clua_has_changed_field(lua_State *L, int reads) {
    int top = lua_gettop(L), changes = top + 1, change = top + 2, name = top + 3;
    bool has_changed = false;
    clua_need_stack(L, 20);
    lua_Integer count = clua_push_kept(L, CLUA_KEPT_CHANGED_FIELDS) == LUA_TTABLE ? (lua_Integer)lua_rawlen(L, changes) : 0;
    for (lua_Integer i = 1; i <= count && !has_changed; i++) {
        lua_rawgeti(L, changes, i);
        lua_rawgeti(L, change, 1);
        if (clua_module_name(L, name)) {
            lua_remove(L, name);
            if (lua_isnil(L, -1)) {
                lua_pop(L, 1);
                lua_rawgeti(L, change, 2);
            }
            has_changed = reads_field(L, reads);
        }
        lua_settop(L, changes);
    }
    lua_settop(L, top);
    return has_changed;
}

// MARK: modules

bool clua_is_module_kept(lua_State *L, int name) {
    int top = lua_gettop(L), record = top + 1;
    if (!clua_state_of(L)->libraries_are_recorded) return true;
    clua_push_kept(L, CLUA_KEPT_LIBRARIES);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    bool is_kept = lua_rawget(L, record) != LUA_TNIL;
    if (is_kept) {
        lua_rawgeti(L, record, lua_tointeger(L, -1) + COPY);
        lua_pushvalue(L, name);
        is_kept = lua_rawget(L, -2) != LUA_TNIL;
    }
    lua_settop(L, top);
    return is_kept;
}

// Makes the field of the table at `table` with the name at `name` a recorded one. Stack indices. Needs 5 slots.
static void record_field(lua_State *L, int table, int name) {
    int top = lua_gettop(L), record = top + 1, copy = top + 3;
    if (!clua_state_of(L)->libraries_are_recorded) return;
    clua_push_kept(L, CLUA_KEPT_LIBRARIES);
    lua_pushvalue(L, table);
    if (lua_rawget(L, record) != LUA_TNIL) {
        lua_Integer position = lua_tointeger(L, -1);
        lua_rawgeti(L, record, position + COPY);
        lua_pushvalue(L, name);
        bool is_new = lua_rawget(L, copy) == LUA_TNIL;
        lua_pop(L, 1);
        lua_pushvalue(L, name);
        lua_pushvalue(L, name);
        lua_rawget(L, table);
        lua_rawset(L, copy);
        if (is_new) {
            lua_rawgeti(L, record, position + FIELD_COUNT);
            lua_pushinteger(L, lua_tointeger(L, -1) + 1);
            lua_rawseti(L, record, position + FIELD_COUNT);
        }
    }
    lua_settop(L, top);
}

void clua_record_global(lua_State *L, int name) {
    clua_push_real_globals(L);
    record_field(L, lua_gettop(L), name);
    lua_pop(L, 1);
}

void clua_adopt_module(lua_State *L, int name) {
    if (clua_is_module_kept(L, name)) return;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    record_field(L, lua_gettop(L), name);
    lua_pop(L, 1);
}

bool clua_are_libraries_changed(lua_State *L) {
    return clua_state_of(L)->libraries_are_recorded && !compare(L, false);
}

int clua_restore_libraries(lua_State *L) {
    clua_state *state = clua_state_of(L);
    if (!state->libraries_are_recorded) {
        luaL_checkstack(L, 20, NULL);
        record_libraries(L);
    } else {
        state->libraries_may_differ = false;
        compare(L, true);
    }
    clua_restore_random(L);
    return 0;
}

// MARK: callbacks while a body waits

// The waiting body and a callback of another one share the tables. So the callback finds the libraries as a body does, and the waiting body finds
// them afterwards as it had left them. CLUA_KEPT_SET_ASIDE is a list of what the waiting bodies had: a record or, if that was the state's, true;
// the rest of the list; and the random numbers from before the body's own seed, or false.

// Whether the function at `function` has the globals of the waiting body, whose own callback it is therefore.
static bool belongs_to_waiting_body(lua_State *L, int function) {
    const char *name;
    for (int i = 1; (name = lua_getupvalue(L, function, i)) != NULL; i++) {
        const void *globals = lua_topointer(L, -1);
        lua_pop(L, 1);
        if (strcmp(name, "_ENV") == 0) return globals == clua_state_of(L)->waiting_globals;
    }
    // A function without globals may belong to any body. In a sandbox, it could be one that has kept a library.
    return !clua_state_of(L)->checks_libraries_always;
}

int clua_put_libraries_back(lua_State *L) {
    clua_state *state = clua_state_of(L);
    luaL_checkstack(L, 8, NULL);
    while (state->set_aside_count > state->set_aside_before) {
        int top = lua_gettop(L);
        clua_push_kept(L, CLUA_KEPT_SET_ASIDE);
        lua_rawgeti(L, top + 1, 2);
        clua_keep(L, CLUA_KEPT_SET_ASIDE);
        state->set_aside_count--;
        clua_restore_random(L);
        if (lua_rawgeti(L, top + 1, 3) == LUA_TSTRING) {
            memcpy(state->saved_random, lua_tostring(L, -1), sizeof state->saved_random);
            state->has_saved_random = true;
        }
        if (lua_rawgeti(L, top + 1, 1) != LUA_TTABLE) clua_push_kept(L, CLUA_KEPT_LIBRARIES);
        compare_with(L, true);
        lua_settop(L, top);
    }
    return 0;
}

void clua_begin_callback(lua_State *L, int function) {
    clua_state *state = clua_state_of(L);
    bool may_change = state->has_library_code || state->checks_libraries_always || state->has_saved_random;
    if (!may_change || !state->libraries_are_recorded || !clua_has_waiting_body(state)) return;
    clua_put_libraries_back(L);
    if (belongs_to_waiting_body(L, function)) return;
    int top = lua_gettop(L);
    luaL_checkstack(L, 8, NULL);
    if (compare(L, false))
        lua_pushboolean(L, 1);
    else
        push_record(L);
    clua_push_kept(L, CLUA_KEPT_SET_ASIDE);
    if (state->has_saved_random)
        lua_pushlstring(L, (const char *)state->saved_random, sizeof state->saved_random);
    else
        lua_pushboolean(L, 0);
    clua_pack(L, 3);
    clua_keep(L, CLUA_KEPT_SET_ASIDE);
    state->has_saved_random = false;
    state->set_aside_count++;
    compare(L, true);
    lua_settop(L, top);
}
