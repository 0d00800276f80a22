#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"

void clua_pack(lua_State *L, int count) {
    int array = lua_gettop(L) - count + 1;
    lua_createtable(L, count, 0);
    lua_insert(L, array);
    for (int i = count; i >= 1; i--) lua_rawseti(L, array, i);
}

void clua_push_weak(lua_State *L, const char *mode) {
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

void clua_push_kept_weak(lua_State *L, int kept, const char *mode) {
    if (clua_push_kept(L, kept) == LUA_TTABLE) return;
    lua_pop(L, 1);
    clua_push_weak(L, mode);
    lua_pushvalue(L, -1);
    clua_keep(L, kept);
}

bool clua_boolean_option(lua_State *L, const char *name, bool usual) {
    if (lua_isnoneornil(L, 2)) return usual;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_pushnil(L);
    while (lua_next(L, 2)) {
        if (lua_type(L, 3) != LUA_TSTRING || strcmp(lua_tostring(L, 3), name) != 0)
            luaL_argerror(L, 2, lua_pushfstring(L, "unknown option '%s'", luaL_tolstring(L, 3, NULL)));
        if (!lua_isboolean(L, 4)) luaL_argerror(L, 2, lua_pushfstring(L, "%s must be true or false, got %s", name, luaL_typename(L, 4)));
        usual = lua_toboolean(L, 4);
        lua_settop(L, 3);
    }
    return usual;
}

void clua_register_module(lua_State *L, const char *name) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}
