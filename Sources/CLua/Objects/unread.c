// Results of failed programs, whose status no code has read yet.
//
// A program's failure is reported at the end if no code has looked at it. A script that waits for a program and drops the result has not looked. So the
// result of a failed program has no fields `status` and `signal` at first. Its metatable adds them when code reads one of them, or traverses the result
// with `pairs`. The result is a plain table from then on.
#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "Objects/unread_raising.h"

// The upvalues of the metamethods: the process, and the values of the hidden fields.
enum { PROCESS = 1, FIRST_HIDDEN };

static const char *const hidden[] = {"status", "signal"};
enum { HIDDEN_COUNT = sizeof hidden / sizeof *hidden };

// Makes the result at stack index 1 a plain table. The metatable goes last, so that an error on the way loses nothing.
static void show(lua_State *L) {
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        lua_pushstring(L, hidden[i]);
        lua_pushvalue(L, lua_upvalueindex(FIRST_HIDDEN + i));
        lua_rawset(L, 1);
    }
    lua_getfield(L, lua_upvalueindex(PROCESS), "wait");
    lua_pushvalue(L, lua_upvalueindex(PROCESS));
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushboolean(L, true);
    lua_call(L, 4, 0);
    lua_pushnil(L);
    lua_setmetatable(L, 1);
}

static int index_unread(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        if (strcmp(key, hidden[i]) != 0) continue;
        show(L);
        lua_pushvalue(L, lua_upvalueindex(FIRST_HIDDEN + i));
        return 1;
    }
    return 0;
}

static int next_field(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    if (lua_next(L, 1)) return 2;
    lua_pushnil(L);
    return 1;
}

static int pairs_of_unread(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    show(L);
    lua_pushcfunction(L, next_field);
    lua_insert(L, 1);
    return 2;
}

int clua_make_unread_here(lua_State *L) {
    static const luaL_Reg metamethods[] = {{"__index", index_unread}, {"__pairs", pairs_of_unread}};
    lua_createtable(L, 0, 3);
    for (size_t i = 0; i < sizeof metamethods / sizeof *metamethods; i++) {
        lua_pushvalue(L, 2);
        for (int j = 0; j < HIDDEN_COUNT; j++) lua_getfield(L, 1, hidden[j]);
        lua_pushcclosure(L, metamethods[i].func, 1 + HIDDEN_COUNT);
        lua_setfield(L, -2, metamethods[i].name);
    }
    // Another metatable would take the fields away for ever.
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        lua_pushnil(L);
        lua_setfield(L, 1, hidden[i]);
    }
    lua_setmetatable(L, 1);
    lua_settop(L, 1);
    return 1;
}

void clua_show_status(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (!luaL_getmetafield(L, index, "__index")) return;
    if (lua_tocfunction(L, -1) == index_unread) {
        lua_pushvalue(L, index);
        lua_pushstring(L, hidden[0]);
        lua_call(L, 2, 0);
    } else {
        lua_pop(L, 1);
    }
}
