#include <lua5.4/lauxlib.h>

#include "Core/registry_raising.h"

void clua_registry_open(lua_State *L) {
    clua_state *state = clua_state_of(L);
    for (int i = 0; i < CLUA_KEPT_COUNT; i++) {
        lua_pushboolean(L, 0);
        int reference = luaL_ref(L, LUA_REGISTRYINDEX);
        if (i == 0) state->first_kept = reference;
        if (reference != state->first_kept + i) luaL_error(L, "opscript bug: the registry has been used before");
    }
}
