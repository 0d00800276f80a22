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
