#include <lua5.4/lauxlib.h>

#include "Core/registry_raising.h"

// The indices must follow one another. `luaL_ref` hands out those that others have freed first, in any order; the table on top collects them.
void clua_registry_open(lua_State *L) {
    clua_state *state = clua_state_of(L);
    int unused = 0;
    lua_createtable(L, 0, 0);
    for (int i = 0; i < CLUA_KEPT_COUNT; i++) {
        lua_pushboolean(L, 0);
        int reference = luaL_ref(L, LUA_REGISTRYINDEX);
        if (i > 0 && reference != state->first_kept + i) {
            for (int j = 0; j < i; j++) {
                lua_pushinteger(L, state->first_kept + j);
                lua_rawseti(L, -2, ++unused);
            }
            i = 0;
        }
        if (i == 0) state->first_kept = reference;
    }
    for (; unused > 0; unused--) {
        lua_rawgeti(L, -1, unused);
        luaL_unref(L, LUA_REGISTRYINDEX, (int)lua_tointeger(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}
