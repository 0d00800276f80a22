#include <lua5.4/lauxlib.h>

#include "Core/registry_raising.h"

void clua_registry_open(lua_State *L) {
    // `luaL_ref` keeps its list of free indices in the registry, and makes it when it is first called.
    lua_pushboolean(L, 0);
    luaL_unref(L, LUA_REGISTRYINDEX, luaL_ref(L, LUA_REGISTRYINDEX));
    int first = clua_state_of(L)->first_kept = (int)lua_rawlen(L, LUA_REGISTRYINDEX) + 1;
    for (int i = 0; i < CLUA_KEPT_COUNT; i++) {
        lua_pushboolean(L, 0);
        lua_rawseti(L, LUA_REGISTRYINDEX, first + i);
    }
}
