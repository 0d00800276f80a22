#include "observer.h"

#include <lua5.4/lauxlib.h>

#include "Objects/object_raising.h"
#include "Objects/observer_raising.h"
#include "values.h"

void clua_add_observer(lua_State *L, int index, int function) {
    int observation = lua_gettop(L);
    luaL_checkstack(L, 5, NULL);
    lua_pushvalue(L, index);
    if (!clua_push_observers(L)) {
        // Stack: ..., handle, completion block or nil.
        lua_createtable(L, 1, 1);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, index, CLUA_USER_VALUE_FUNCTIONS);
    }
    lua_pushvalue(L, observation);
    lua_pushvalue(L, function);
    lua_rawset(L, -3);
    lua_settop(L, observation);
}

int clua_observations(lua_State *L, const void *object, void **observations, int most) {
    int top = lua_gettop(L), count = 0;
    if (!lua_checkstack(L, 8)) return 0;
    if (clua_push_existing_handle(L, object) && clua_push_observers(L)) {
        lua_pushnil(L);
        while (clua_next(L, top + 2)) {
            clua_handle *observation = clua_to_handle(L, -2);
            if (observation != NULL && count < most) observations[count] = observation->object;
            count += observation != NULL;
            lua_pop(L, 1);
        }
    }
    lua_settop(L, top);
    return count;
}

void clua_remove_observer(lua_State *L, const void *object, const void *observation) {
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 6)) return;
    // An object without a handle has no observer function.
    if (clua_push_existing_handle(L, object) && clua_push_observers(L)
        && clua_push_existing_handle(L, observation)) {
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) != LUA_TNIL) {
            lua_pop(L, 1);
            lua_pushnil(L);
            lua_rawset(L, -3);  // replaces an existing field, so it cannot raise
        }
    }
    lua_settop(L, top);
}
