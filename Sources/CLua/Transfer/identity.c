#include "Transfer/identity_raising.h"

#include <lua5.4/lauxlib.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Libraries/private_tables_raising.h"

// MARK: numbers

// Processes of a cluster must not use the same numbers, so each starts at random.
static lua_Integer new_number(void) {
    static _Atomic(uint64_t) last;
    uint64_t start = atomic_load_explicit(&last, memory_order_relaxed);
    if (start == 0) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) random = (uintptr_t)&random;
        atomic_compare_exchange_strong(&last, &start, random | 1);
    }
    lua_Integer number;
    do number = (lua_Integer)atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
    while (number == 0);
    return number;
}

// Without a scope of identities, such as in a callback between bodies, each copy stays a copy.
static bool is_active(const clua_state *state) { return state->has_identities || !state->separates_globals; }

bool clua_push_identified(lua_State *L, lua_Integer number) {
    if (!is_active(clua_state_of(L)) || clua_push_kept(L, CLUA_KEPT_IDENTIFIED) != LUA_TTABLE) {
        if (is_active(clua_state_of(L))) lua_pop(L, 1);
        return false;
    }
    lua_rawgeti(L, -1, number);
    lua_remove(L, -2);
    if (lua_istable(L, -1)) return true;
    lua_pop(L, 1);
    return false;
}

void clua_identify(lua_State *L, lua_Integer number) {
    clua_state *state = clua_state_of(L);
    clua_push_kept_weak(L, CLUA_KEPT_IDENTITIES, "k");
    state->has_classes = true;
    lua_pushvalue(L, -2);
    lua_pushinteger(L, number);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    if (!is_active(state)) return;
    state->uses_identities = true;
    clua_push_kept_weak(L, CLUA_KEPT_IDENTIFIED, "v");
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, number);
    lua_pop(L, 1);
}

void clua_begin_identities(lua_State *L, clua_identities *outer) {
    clua_state *state = clua_state_of(L);
    *outer = (clua_identities){state->has_identities, state->uses_identities, state->uses_identities};
    if (outer->is_pushed) {
        clua_push_kept(L, CLUA_KEPT_IDENTIFIED);
        lua_pushboolean(L, 0);
        clua_keep(L, CLUA_KEPT_IDENTIFIED);
    }
    state->has_identities = true;
    state->uses_identities = false;
}

void clua_end_identities(lua_State *L, const clua_identities *outer) {
    clua_state *state = clua_state_of(L);
    if (outer->is_pushed || state->uses_identities) {
        if (!outer->is_pushed) lua_pushboolean(L, 0);
        clua_keep(L, CLUA_KEPT_IDENTIFIED);
    }
    state->has_identities = outer->is_active;
    state->uses_identities = outer->is_used;
}

// MARK: classes

// Whether the table on top is for many objects, and not the data of one: it has functions or names for metatables, or only
// a metatable.
static bool is_behaviour(lua_State *L) {
    if (clua_is_environment(L, -1)) return true;
    bool has_metatable = lua_getmetatable(L, -1), is_empty = true;
    if (has_metatable) lua_pop(L, 1);
    if (clua_module_name(L, -1)) {
        lua_pop(L, 2);
        return true;
    }
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        is_empty = false;
        bool is_found = lua_isfunction(L, -1) || (lua_type(L, -2) == LUA_TSTRING && clua_is_meta_name(lua_tostring(L, -2)));
        if (is_found) {
            lua_pop(L, 2);
            return true;
        }
        lua_pop(L, 1);
    }
    return has_metatable && is_empty;
}

// Whether the metamethod on top, of the metatable at `metatable`, has no data of one object: a proxy keeps its object there.
static bool is_for_many(lua_State *L, int metatable) {
    if (lua_istable(L, -1)) return lua_rawequal(L, -1, metatable) || is_behaviour(L);
    if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1)) return true;
    bool is_for_many = true;
    for (int i = 1; is_for_many && lua_getupvalue(L, -1, i) != NULL; i++) {
        is_for_many = lua_type(L, -1) != LUA_TNUMBER && (!lua_istable(L, -1) || lua_rawequal(L, -1, metatable) || is_behaviour(L));
        lua_pop(L, 1);
    }
    return is_for_many;
}

static bool has_field(lua_State *L, int table, const char *name) {
    lua_pushstring(L, name);
    bool has = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

// Whether a field with a name for metatables contains the metatable of instances, as in middleclass.
static bool has_metatable_of_instances(lua_State *L, int table) {
    bool has = false;
    lua_pushnil(L);
    while (!has && lua_next(L, table)) {
        has = lua_type(L, -2) == LUA_TSTRING && clua_is_meta_name(lua_tostring(L, -2)) && lua_istable(L, -1) && !lua_rawequal(L, -1, table)
            && has_field(L, lua_gettop(L), "__index");
        lua_pop(L, has ? 2 : 1);
    }
    return has;
}

// Whether the table on top is a class: many objects share it, and none keeps its own data there.
static bool is_class(lua_State *L, bool is_metatable) {
    int table = lua_gettop(L);
    if (lua_getmetatable(L, table)) {
        bool is_own = lua_rawequal(L, -1, table);
        lua_pop(L, 1);
        if (is_own) return false;
        if (clua_has_weak_keys(L, table) || has_metatable_of_instances(L, table)) return true;
    }
    static const char *const access[] = {"__index", "__newindex"};
    bool has_access = false;
    for (size_t i = 0; i < sizeof access / sizeof *access; i++) {
        lua_pushstring(L, access[i]);
        bool is_there = lua_rawget(L, table) != LUA_TNIL, is_right = !is_there || is_for_many(L, table);
        has_access = has_access || lua_istable(L, -1) || lua_isfunction(L, -1);
        lua_pop(L, 1);
        if (!is_right) return false;
    }
    // A function with a state of its own, as an object.
    return has_access || (is_metatable && !has_field(L, table, "__call"));
}

lua_Integer clua_identity_of(lua_State *L, bool is_metatable) {
    if (clua_push_kept(L, CLUA_KEPT_IDENTITIES) == LUA_TTABLE) {
        lua_pushvalue(L, -2);
        lua_rawget(L, -2);
        lua_Integer number = lua_tointeger(L, -1);
        lua_pop(L, 2);
        if (number != 0) return number;
    } else {
        lua_pop(L, 1);
    }
    if (!is_class(L, is_metatable)) return 0;
    lua_Integer number = new_number();
    clua_identify(L, number);
    return number;
}
