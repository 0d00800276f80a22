// The settings of the script for all operations. `package.path`, `package.cpath` and `arg` travel in one parcel. `package.preload` and
// `package.searchers`, whose functions may need these paths on arrival, travel in another.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Calls/application_raising.h"
#include "Calls/run_apart.h"
#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Transfer/parcel_raising.h"
#include "application.h"
#include "state.h"

// The values that are read for each operation wait on the stack of a coroutine that never runs. The contents of the last parcels follow.
enum {
    PACKAGE = 1,
    GLOBALS,
    PRELOAD,
    PATH,
    CPATH,
    ARG,
    SEARCHERS,
    SENT_PATH,
    SENT_CPATH,
    SENT_ARG,
    ARG_FIELDS,
    PRELOAD_FIELDS,
    SEARCHER_FIELDS,
    LAST = SEARCHER_FIELDS
};

static void push_package(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    lua_remove(L, -2);
}

// Pushes the C functions among the searchers. Every state has the same ones, in the same order.
static void push_own_searchers(lua_State *L) {
    lua_newtable(L);
    push_package(L);
    if (lua_istable(L, -1) && lua_getfield(L, -1, "searchers") == LUA_TTABLE) {
        lua_Integer count = 0;
        for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
            if (lua_iscfunction(L, -1))
                lua_rawseti(L, -4, ++count);
            else
                lua_pop(L, 1);
        }
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

void clua_settings_open(lua_State *L) {
    clua_state *state = clua_state_of(L);
    lua_State *own = state->settings = lua_newthread(L);
    luaL_checkstack(own, LAST + LUA_MINSTACK, NULL);
    push_package(L);
    clua_push_real_globals(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushliteral(L, "path");
    lua_pushliteral(L, "cpath");
    lua_pushliteral(L, "arg");
    lua_pushliteral(L, "searchers");
    lua_xmove(L, own, SEARCHERS);
    lua_settop(own, ARG_FIELDS);
    lua_newtable(L);
    push_own_searchers(L);
    state->setting_counts[PRELOAD_FIELDS - ARG_FIELDS] = 0;
    state->setting_counts[SEARCHER_FIELDS - ARG_FIELDS] = (lua_Integer)lua_rawlen(L, -1);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_SEARCHERS);
    lua_xmove(L, own, 2);
    clua_keep(L, CLUA_KEPT_SETTINGS);
}

// MARK: changes

// Pushes a field of a table. Returns whether it is the value at `sent`.
static bool is_same(lua_State *own, int table, int name, int sent) {
    lua_pushvalue(own, name);
    lua_rawget(own, table);
    return lua_rawequal(own, -1, sent);
}

// Whether the value at `table` has the fields of the table at `fields`, or neither is a table.
static bool has_same_fields(lua_State *own, int table, int fields) {
    if (!lua_istable(own, table) || !lua_istable(own, fields)) return !lua_istable(own, table) && !lua_istable(own, fields);
    return clua_count_same_fields(own, table, fields) == clua_state_of(own)->setting_counts[fields - ARG_FIELDS];
}

unsigned clua_changed_settings(lua_State *L) {
    lua_State *own = clua_state_of(L)->settings;
    bool has_same_paths = is_same(own, PACKAGE, PATH, SENT_PATH);
    has_same_paths &= is_same(own, PACKAGE, CPATH, SENT_CPATH);
    has_same_paths &= is_same(own, GLOBALS, ARG, SENT_ARG) && has_same_fields(own, lua_gettop(own), ARG_FIELDS);
    lua_pushvalue(own, SEARCHERS);
    lua_rawget(own, PACKAGE);
    bool has_same_loaders = has_same_fields(own, PRELOAD, PRELOAD_FIELDS) && has_same_fields(own, lua_gettop(own), SEARCHER_FIELDS);
    lua_settop(own, LAST);
    return (has_same_paths ? 0 : CLUA_PATHS) | (has_same_loaders ? 0 : CLUA_LOADERS);
}

// Pops a copy of a table, or nil, that is sent now.
static void set_sent_fields(lua_State *L, int fields) {
    lua_Integer count = 0;
    if (lua_istable(L, -1)) {
        lua_pushnil(L);
        for (; lua_next(L, -2); count++) lua_pop(L, 1);
    }
    clua_state *state = clua_state_of(L);
    state->setting_counts[fields - ARG_FIELDS] = count;
    lua_xmove(L, state->settings, 1);
    lua_replace(state->settings, fields);
}

static void push_copy(lua_State *L, int index) {
    if (lua_istable(L, index))
        clua_push_copy(L, index);
    else
        lua_pushnil(L);
}

// MARK: sending

static int encode_paths(lua_State *L) {
    enum { PARCEL = 1, ITS_PACKAGE, ITS_ARG, COPY_OF_ARG, ITS_PATH, ITS_CPATH };
    clua_parcel *parcel = lua_touserdata(L, PARCEL);
    push_package(L);
    clua_push_real_globals(L);
    lua_pushliteral(L, "arg");
    lua_rawget(L, ITS_ARG);
    lua_replace(L, ITS_ARG);
    push_copy(L, ITS_ARG);
    lua_getfield(L, ITS_PACKAGE, "path");
    lua_getfield(L, ITS_PACKAGE, "cpath");
    lua_pushvalue(L, ITS_ARG);
    int status = clua_encode(L, 3, CLUA_STORED, parcel);
    if (status == LUA_ERRRUN) {
        // A script may put anything into `arg`. If it cannot be sent, the workers do without it.
        lua_settop(L, ITS_CPATH);
        lua_pushnil(L);
        status = clua_encode(L, 3, CLUA_STORED, parcel);
    }
    if (status != LUA_OK) return lua_error(L);
    static const int sent[] = {ITS_PATH, ITS_CPATH, ITS_ARG};
    for (int i = 0; i < 3; i++) {
        lua_pushvalue(L, sent[i]);
        lua_xmove(L, clua_state_of(L)->settings, 1);
        lua_replace(clua_state_of(L)->settings, SENT_PATH + i);
    }
    lua_settop(L, COPY_OF_ARG);
    set_sent_fields(L, ARG_FIELDS);
    return 0;
}

// The value on top of the table at `table` has the key below it. If it cannot be sent, assigns a text that says so. Pops the value.
static void replace_unsendable(lua_State *L, int table, const char *field) {
    clua_parcel probe;
    int status = clua_encode(L, 1, CLUA_STORED, &probe);
    if (status == LUA_ERRMEM) lua_error(L);
    if (status == LUA_OK) {
        clua_parcel_release(&probe);
        lua_pop(L, 1);
        return;
    }
    const char *key = luaL_tolstring(L, -3, NULL);
    lua_pushfstring(L, "package.%s['%s'] did not reach this operation: %s; set it in opscript.prelude, too", field, key, lua_tostring(L, -2));
    lua_pushvalue(L, -5);
    lua_insert(L, -2);
    lua_rawset(L, table);
    lua_pop(L, 3);
}

static void replace_all_unsendable(lua_State *L, int table, const char *field) {
    if (!lua_istable(L, table)) return;
    lua_pushnil(L);
    while (lua_next(L, table)) replace_unsendable(L, table, field);
}

// The length of the list at `searchers`. `#` may be larger than any table, so it counts up to a limit.
static lua_Integer count_searchers(lua_State *L, int searchers) {
    enum { MOST = 1000 };
    lua_Unsigned count = lua_istable(L, searchers) ? lua_rawlen(L, searchers) : 0;
    return count < MOST ? (lua_Integer)count : MOST;
}

// Pushes the searchers, where a number means one of the state's own; nil if these are all.
static void push_sent_searchers(lua_State *L) {
    int searchers = lua_gettop(L) + 1, known = searchers + 1, sent = searchers + 2;
    push_package(L);
    lua_getfield(L, -1, "searchers");
    lua_remove(L, -2);
    clua_push_kept(L, CLUA_KEPT_SEARCHERS);
    lua_newtable(L);
    lua_Integer count = count_searchers(L, searchers);
    bool are_own = count == count_searchers(L, known);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, searchers, i);
        for (lua_Integer j = 1; lua_rawgeti(L, known, j) != LUA_TNIL; j++) {
            if (lua_rawequal(L, -1, -2)) {
                lua_pushinteger(L, j);
                lua_replace(L, -3);
                are_own &= i == j;
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        are_own &= lua_isinteger(L, -1);
        lua_rawseti(L, sent, i);
    }
    if (are_own) lua_pushnil(L);
    lua_replace(L, searchers);
    lua_settop(L, searchers);
}

static int encode_loaders(lua_State *L) {
    enum { PARCEL = 1, ITS_PRELOAD, ITS_PACKAGE, ITS_SEARCHERS, COPY_OF_PRELOAD, COPY_OF_SEARCHERS, SENT_LOADERS, SENT_SEARCHERS };
    clua_parcel *parcel = lua_touserdata(L, PARCEL);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    push_package(L);
    lua_getfield(L, ITS_PACKAGE, "searchers");
    push_copy(L, ITS_PRELOAD);
    push_copy(L, ITS_SEARCHERS);
    clua_push_copy(L, ITS_PRELOAD);
    push_sent_searchers(L);
    int status = clua_encode(L, 2, CLUA_STORED, parcel);
    if (status == LUA_ERRRUN) {
        lua_settop(L, SENT_SEARCHERS);
        replace_all_unsendable(L, SENT_LOADERS, "preload");
        replace_all_unsendable(L, SENT_SEARCHERS, "searchers");
        status = clua_encode(L, 2, CLUA_STORED, parcel);
    }
    if (status != LUA_OK) return lua_error(L);
    lua_settop(L, COPY_OF_SEARCHERS);
    set_sent_fields(L, SEARCHER_FIELDS);
    set_sent_fields(L, PRELOAD_FIELDS);
    return 0;
}

int clua_encode_settings(lua_State *L, clua_setting setting, clua_parcel *parcel, clua_failure *failure) {
    memset(parcel, 0, sizeof *parcel);
    return clua_protect(L, setting == CLUA_PATHS ? encode_paths : encode_loaders, parcel, 0, failure);
}

// MARK: arriving

// Stack: the package, the path, the cpath, `arg`.
static void apply_paths(lua_State *L, int package) {
    lua_pushvalue(L, package + 1);
    lua_setfield(L, package, "path");
    lua_pushvalue(L, package + 2);
    lua_setfield(L, package, "cpath");
    clua_push_real_globals(L);
    lua_pushliteral(L, "arg");
    lua_pushvalue(L, package + 3);
    clua_adopt_global(L);
}

// In place of a loader that could not be sent. Upvalue: the message.
static int refuse_to_load(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    return lua_error(L);
}

// In place of such a searcher.
static int find_nothing(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

// Removes the loaders that the last parcel had.
static void remove_loaders(lua_State *L, int preload) {
    if (clua_push_kept(L, CLUA_KEPT_LOADERS) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, -2)) {
            lua_pushvalue(L, -2);
            bool is_there = lua_rawget(L, preload) != LUA_TNIL && lua_rawequal(L, -1, -2);
            lua_pop(L, 2);
            if (!is_there) continue;
            lua_pushvalue(L, -1);
            lua_pushnil(L);
            lua_rawset(L, preload);
        }
    }
    lua_pop(L, 1);
}

static void apply_preload(lua_State *L, int loaders) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    int preload = lua_gettop(L);
    remove_loaders(L, preload);
    lua_pushnil(L);
    while (lua_next(L, loaders)) {
        if (lua_type(L, -1) == LUA_TSTRING) {
            lua_pushcclosure(L, refuse_to_load, 1);
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2);
            lua_rawset(L, loaders);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, preload);
    }
    lua_pushvalue(L, loaders);
    clua_keep(L, CLUA_KEPT_LOADERS);
    lua_pop(L, 1);
}

static void apply_searchers(lua_State *L, int package, int sent) {
    int searchers = lua_gettop(L) + 1, known = searchers + 1;
    if (lua_getfield(L, package, "searchers") != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, package, "searchers");
    }
    clua_push_kept(L, CLUA_KEPT_SEARCHERS);
    int from = lua_istable(L, sent) ? sent : known;
    lua_Integer count = count_searchers(L, from), before = count_searchers(L, searchers);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, from, i);
        if (lua_isinteger(L, -1)) lua_rawgeti(L, known, lua_tointeger(L, -1));
        else if (lua_type(L, -1) == LUA_TSTRING) lua_pushcclosure(L, find_nothing, 1);
        lua_rawseti(L, searchers, i);
        lua_settop(L, known);
    }
    for (lua_Integer i = count + 1; i <= before; i++) {
        lua_pushnil(L);
        lua_rawseti(L, searchers, i);
    }
    lua_settop(L, searchers - 1);
}

static int apply_settings(lua_State *L) {
    const clua_parcel *parcel = lua_touserdata(L, 1);
    clua_need_stack(L, 2 * LUA_MINSTACK);
    if (clua_state_of(L)->libraries_may_differ) clua_restore_libraries(L);
    lua_settop(L, 1);
    push_package(L);
    lua_insert(L, 1);
    lua_settop(L, 2 + CLUA_DECODING_SLOTS);
    // The functions use the state's own globals, as a module does that is loaded from a file.
    clua_decode_here(L, parcel, CLUA_CURRENT_ENVIRONMENT);
    for (int i = 0; i < CLUA_DECODING_SLOTS + 1; i++) lua_remove(L, 2);
    clua_adopt_libraries(L);
    if (parcel->value_count == 3) {
        apply_paths(L, 1);
    } else {
        apply_preload(L, 2);
        apply_searchers(L, 1, 3);
    }
    return 0;
}

int clua_apply_settings(lua_State *L, const clua_parcel *parcel, clua_failure *failure) {
    return clua_run_apart(L, apply_settings, (void *)parcel, failure);
}
