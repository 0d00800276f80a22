// The minimum that the script of L1 costs in Lua alone: its closures, a userdata and a block of memory per operation, three calls of C
// functions, a table that keeps the userdata, and the call of the completion block. It sends nothing, runs nothing and has no threads.
#include "handles.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

enum { MAIN = 1, COMPLETION, SLOTS = COMPLETION };

static int pinned, pinned_count;  // the table in the registry, and its number of elements

struct handle {
    void *operation;
    int slot;
};

static int new(lua_State *lua) {
    struct handle *handle = lua_newuserdatauv(lua, sizeof *handle, SLOTS);
    *handle = (struct handle){0};
    lua_pushvalue(lua, 1);
    lua_setiuservalue(lua, -2, MAIN);
    luaL_setmetatable(lua, "Operation");
    return 1;
}

// Implements `operation.completionBlock = function`.
static int set(lua_State *lua) {
    lua_settop(lua, 3);
    lua_setiuservalue(lua, 1, COMPLETION);
    return 0;
}

static int add(lua_State *lua) {
    struct handle *handle = luaL_checkudata(lua, 2, "Operation");
    handle->operation = malloc(256);
    handle->slot = ++pinned_count;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, pinned);
    lua_pushvalue(lua, 2);
    lua_rawseti(lua, -2, handle->slot);
    lua_settop(lua, 2);
    return 1;
}

static int run_completion_blocks(lua_State *lua) {
    lua_settop(lua, 0);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, pinned);
    for (int slot = 1; slot <= pinned_count; slot++) {
        lua_rawgeti(lua, 1, slot);
        lua_pushnil(lua);
        lua_rawseti(lua, 1, slot);
        lua_getiuservalue(lua, 2, COMPLETION);
        lua_pushvalue(lua, 2);
        if (lua_pcall(lua, 1, 0, 0) != LUA_OK) return lua_error(lua);
        free(((struct handle *)lua_touserdata(lua, 2))->operation);
        lua_settop(lua, 1);
    }
    pinned_count = 0;
    return 0;
}

static const char script[] =
    "local new, add, run, count = ... "
    "local queue, finished = { addOperation = add }, 0 "
    "for i = 1, count do "
    "  local operation = new(function() return i end) "
    "  operation.completionBlock = function() finished = finished + 1 end "
    "  queue:addOperation(operation) "
    "end "
    "run() "
    "assert(finished == count)";

void run_handles(lua_State *lua, int count) {
    if (luaL_newmetatable(lua, "Operation")) {
        lua_pushcfunction(lua, set);
        lua_setfield(lua, -2, "__newindex");
        lua_newtable(lua);
        pinned = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
    lua_settop(lua, 0);
    luaL_loadstring(lua, script);
    lua_pushcfunction(lua, new);
    lua_pushcfunction(lua, add);
    lua_pushcfunction(lua, run_completion_blocks);
    lua_pushinteger(lua, count);
    lua_call(lua, 4, 0);
}
