// Keeps the seed of a body in `math.random` from the bodies that run later in the same state.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Libraries/isolation_raising.h"

// Pushes the generator of `math.random`, an upvalue of Lua's `math.randomseed`, which `randomseed` wraps. NULL if the function is another one.
static void *push_generator(lua_State *L, int randomseed) {
    lua_pushnil(L);
    if (lua_getupvalue(L, randomseed, 1) != NULL) lua_replace(L, -2);
    return lua_rawlen(L, -1) == sizeof clua_state_of(L)->saved_random ? lua_touserdata(L, -1) : NULL;
}

// Upvalue: Lua's `math.randomseed`. A seed ends with its body: the next one continues the numbers of before.
static int seed_random(lua_State *L) {
    clua_state *state = clua_state_of(L);
    // An error names this function, and not the one that it calls.
    if (!lua_isnone(L, 1)) {
        luaL_checknumber(L, 1);
        luaL_optinteger(L, 2, 0);
    }
    if (state->separates_globals && !state->has_saved_random) {
        const void *generator = push_generator(L, lua_upvalueindex(1));
        if (generator != NULL) memcpy(state->saved_random, generator, sizeof state->saved_random);
        state->has_saved_random = generator != NULL;
        state->libraries_may_differ |= generator != NULL;
        lua_pop(L, 1);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

void clua_restore_random(lua_State *L) {
    clua_state *state = clua_state_of(L);
    if (!state->has_saved_random) return;
    clua_push_kept(L, CLUA_KEPT_RANDOMSEED);
    void *generator = push_generator(L, lua_gettop(L));
    if (generator != NULL) memcpy(generator, state->saved_random, sizeof state->saved_random);
    state->has_saved_random = false;
    lua_pop(L, 2);
}

void clua_open_random(lua_State *L) {
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_RANDOMSEED);
    lua_pushcclosure(L, seed_random, 1);
    lua_setfield(L, -2, "randomseed");
    lua_pop(L, 1);
}
