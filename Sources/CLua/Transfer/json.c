// The library `opscript.json`. `json_decode.c` and `json_encode.c` have its largest functions.
//
// Libraries that Debian has do not fit: lua-cjson makes floats of all integers, and names no lines; jansson builds a tree first.
#include "Core/tables_raising.h"
#include "Transfer/json_raising.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/registry_raising.h"

const char json_null;

int json_sequence(const unsigned char *bytes) {
    unsigned char first = bytes[0], second = bytes[1];
    int count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    for (int i = 1; i < count; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    // Longer than necessary, a surrogate, or beyond the last character.
    bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90)
        || (first == 0xf4 && second > 0x8f);
    return is_wrong ? 0 : count;
}

// Marks a table as an array, which it is even without elements.
static int mark_array(lua_State *L) {
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    clua_push_kept(L, CLUA_KEPT_JSON_ARRAY);
    lua_setmetatable(L, 1);
    return 1;
}

void clua_open_json(lua_State *L) {
    static const luaL_Reg functions[] = {{"array", mark_array}, {"decode", json_decode}, {"encode", json_encode}, {NULL, NULL}};
    lua_createtable(L, 0, 5);
    luaL_setfuncs(L, functions, 0);
    lua_pushlightuserdata(L, (void *)&json_null);
    lua_setfield(L, -2, "null");
    // An empty array is marked by its metatable, which travels by name, as this field: it is an empty array itself.
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_JSON_ARRAY);
    lua_setfield(L, -2, "emptyArray");
    clua_register_module(L, "opscript.json");
    lua_setfield(L, -2, "json");
}
