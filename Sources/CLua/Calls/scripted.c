// Functions of the module that are written in Lua. A state compiles them when the first of them is called.
#include <lua5.4/lauxlib.h>

#include "Calls/callback_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"

// Pushes the table of the functions. Stack index `module` has the module.
static void push_functions(lua_State *L, int module) {
    if (clua_push_kept(L, CLUA_KEPT_SCRIPTED) == LUA_TTABLE) return;
    lua_pop(L, 1);
    const clua_script *script = &clua_state_of(L)->host->script;
    if (luaL_loadbufferx(L, script->source, script->length, "=opscript", "t") != LUA_OK) lua_error(L);
    // The functions outlive the body that calls the first of them, and its globals.
    clua_push_real_globals(L);
    lua_setupvalue(L, -2, 1);
    lua_pushvalue(L, module);
    lua_call(L, 1, 1);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_SCRIPTED);
}

static int return_all(lua_State *L, int status, lua_KContext context) {
    (void)status;
    (void)context;
    return lua_gettop(L);
}

// Upvalues: the module, the function's name.
static int call_scripted(lua_State *L) {
    int count = lua_gettop(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    push_functions(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_rawget(L, -2);
    lua_insert(L, 1);
    lua_pop(L, 1);
    lua_callk(L, count, LUA_MULTRET, 0, return_all);
    return return_all(L, LUA_OK, 0);
}

void clua_set_scripted(lua_State *L, int module, const clua_member *functions, size_t count) {
    int table = lua_gettop(L);
    for (size_t i = 0; i < count; i++) {
        lua_pushvalue(L, module);
        lua_pushstring(L, functions[i].name);
        lua_pushcclosure(L, call_scripted, 2);
        lua_setfield(L, table, functions[i].name);
    }
}
