#include <lua5.4/lauxlib.h>

#include "Calls/coroutines_raising.h"
#include "Core/Core.h"

// A search through all objects of a state. Stack indices: a table that has the objects found so far as keys, and an array of those whose
// references have not been followed.
typedef struct search {
    int found, waiting;
    lua_Integer waiting_count;
} search;

// Pops a value. If it is an object that has not been found yet, its references will be followed.
static void meet(lua_State *L, search *search) {
    int type = lua_type(L, -1);
    bool is_new = false;
    if (type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA || type == LUA_TTHREAD) {
        lua_pushvalue(L, -1);
        is_new = lua_rawget(L, search->found) == LUA_TNIL;
        lua_pop(L, 1);
    }
    if (!is_new) {
        lua_pop(L, 1);
        return;
    }
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, search->found);
    lua_rawseti(L, search->waiting, ++search->waiting_count);
}

static void meet_metatable(lua_State *L, search *search, int index) {
    if (lua_getmetatable(L, index)) meet(L, search);
}

// Pops a value of `coroutine`.
static void meet_value_of(lua_State *L, search *search, lua_State *coroutine) {
    if (coroutine != L) lua_xmove(coroutine, L, 1);
    meet(L, search);
}

static void follow_coroutine(lua_State *L, search *search, lua_State *coroutine) {
    *(clua_state **)lua_getextraspace(coroutine) = clua_state_of(L);
    clua_need_stack(coroutine, 4);
    lua_Debug activation;
    int first = coroutine == L ? 1 : 0, level = first;  // the first function of L is the one that searches
    for (; lua_getstack(coroutine, level, &activation); level++) {
        lua_getinfo(coroutine, "f", &activation);
        meet_value_of(L, search, coroutine);
        // All values between this call and the next one, with or without a name.
        for (int i = 1; lua_getlocal(coroutine, &activation, i) != NULL; i++) meet_value_of(L, search, coroutine);
        for (int i = -1; lua_getlocal(coroutine, &activation, i) != NULL; i--) meet_value_of(L, search, coroutine);
    }
    if (level > first) return;
    int count = coroutine == L ? 0 : lua_gettop(coroutine);
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(coroutine, i);
        meet_value_of(L, search, coroutine);
    }
}

// Pops an object and meets the values that it refers to.
static void follow(lua_State *L, search *search) {
    int object = lua_gettop(L);
    switch (lua_type(L, object)) {
    case LUA_TTABLE:
        meet_metatable(L, search, object);
        lua_pushnil(L);
        while (lua_next(L, object)) {
            meet(L, search);
            lua_pushvalue(L, -1);
            meet(L, search);
        }
        break;
    case LUA_TFUNCTION:
        for (int i = 1; lua_getupvalue(L, object, i) != NULL; i++) meet(L, search);
        break;
    case LUA_TUSERDATA:
        meet_metatable(L, search, object);
        for (int i = 1; lua_getiuservalue(L, object, i) != LUA_TNONE; i++) meet(L, search);
        break;
    default: follow_coroutine(L, search, lua_tothread(L, object));
    }
    lua_settop(L, object - 1);
}

// The metatables of all numbers, all strings, and so on.
static void meet_metatables_of_types(lua_State *L, search *search) {
    int top = lua_gettop(L);
    lua_pushnil(L);
    lua_pushboolean(L, 0);
    lua_pushinteger(L, 0);
    lua_pushliteral(L, "");
    lua_pushlightuserdata(L, NULL);
    lua_pushcfunction(L, lua_error);
    lua_pushthread(L);
    int last = lua_gettop(L);
    for (int i = top + 1; i <= last; i++) meet_metatable(L, search, i);
    lua_settop(L, top);
}

void clua_mark_coroutines(lua_State *L) {
    int top = lua_gettop(L);
    clua_need_stack(L, 24);
    lua_newtable(L);
    lua_newtable(L);
    search search = {.found = top + 1, .waiting = top + 2};
    meet_metatables_of_types(L, &search);
    lua_pushthread(L);
    meet(L, &search);
    lua_pushvalue(L, LUA_REGISTRYINDEX);
    meet(L, &search);
    while (search.waiting_count > 0) {
        lua_rawgeti(L, search.waiting, search.waiting_count--);
        follow(L, &search);
    }
    lua_settop(L, top);
}
