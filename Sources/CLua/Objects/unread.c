// Results of failed programs, whose status no code has read yet.
//
// A program's failure is reported at the end if no code has looked at it. A script that waits for a program and drops the result has not looked. So the
// result of a failed program has no fields `status` and `signal` at first. Its metatable adds them when code reads one of them, or traverses the result
// with `pairs`. The result is a plain table from then on.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Objects/unread_raising.h"
#include "object.h"
#include "protect.h"

static const char *const hidden[] = {"status", "signal"};
enum { HIDDEN_COUNT = sizeof hidden / sizeof *hidden };

// Makes the result at stack index 1 a plain table. Upvalue 1 is its process.
static void show(lua_State *L) {
    lua_pushnil(L);
    lua_setmetatable(L, 1);
    lua_getfield(L, lua_upvalueindex(1), "wait");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushnil(L);
    lua_pushboolean(L, true);
    lua_call(L, 3, 1);
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        lua_pushstring(L, hidden[i]);
        lua_pushvalue(L, -1);
        lua_rawget(L, -3);
        lua_rawset(L, 1);
    }
    lua_pop(L, 1);
}

static int index_unread(lua_State *L) {
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        if (strcmp(key, hidden[i]) != 0) continue;
        show(L);
        lua_pushvalue(L, 2);
        lua_rawget(L, 1);
        return 1;
    }
    return 0;
}

static int next_field(lua_State *L) {
    lua_settop(L, 2);
    if (lua_next(L, 1)) return 2;
    lua_pushnil(L);
    return 1;
}

static int pairs_of_unread(lua_State *L) {
    lua_settop(L, 1);
    show(L);
    lua_pushcfunction(L, next_field);
    lua_insert(L, 1);
    return 2;
}

// Stack: the result, the process.
static int make_unread(lua_State *L) {
    for (int i = 0; i < HIDDEN_COUNT; i++) {
        lua_pushstring(L, hidden[i]);
        lua_pushnil(L);
        lua_rawset(L, 1);
    }
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, index_unread, 1);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, pairs_of_unread, 1);
    lua_setfield(L, -2, "__pairs");
    // Another metatable would take the two fields away for ever.
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, 1);
    lua_settop(L, 1);
    return 1;
}

int clua_make_unread(lua_State *L, int process, clua_failure *failure) {
    lua_pushcfunction(L, make_unread);
    lua_insert(L, -2);
    lua_pushvalue(L, process);
    return clua_call(L, 2, 1, failure);
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

// Stack: the result.
static int show_status(lua_State *L) {
    clua_show_status(L, 1);
    return 0;
}

int clua_show_status_at(lua_State *L, int index, clua_failure *failure) {
    index = lua_absindex(L, index);
    lua_pushcfunction(L, show_status);
    lua_pushvalue(L, index);
    return clua_call(L, 1, 0, failure);
}
