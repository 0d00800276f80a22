// Functions of the module that are written in Lua. A state compiles them when the first of them is called.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Calls/callback_raising.h"
#include "Core/registry_raising.h"
#include "Core/traceback_raising.h"

// The library functions that the script uses. The new state keeps them, because a body may change libraries before it calls the first of the
// script's functions, and these outlive the body.
static const struct {
    const char *library, *name, *other_name;
} used[] = {
    {LUA_GNAME, "error"},        {LUA_GNAME, "ipairs"},         {LUA_GNAME, "pairs"},
    {LUA_GNAME, "pcall"},        {LUA_GNAME, "rawequal"},       {LUA_GNAME, "setmetatable"},
    {LUA_GNAME, "tostring"},     {LUA_GNAME, "type"},           {LUA_MATHLIBNAME, "max"},
    {LUA_MATHLIBNAME, "min"},    {LUA_MATHLIBNAME, "tointeger"}, {LUA_TABLIBNAME, "move"},
    {LUA_TABLIBNAME, "insert"},  {LUA_TABLIBNAME, "remove"},    {LUA_IOLIBNAME, "open"},
    {LUA_TABLIBNAME, "concat"},  {LUA_STRLIBNAME, "gsub"},      {LUA_STRLIBNAME, "sub"},
    {LUA_STRLIBNAME, "find"},    {NULL, "process"},             {NULL, "sh"},
    {LUA_GNAME, "select"},       {LUA_GNAME, "next"},
    {LUA_GNAME, "getmetatable"}, {LUA_GNAME, "rawget"},         {LUA_STRLIBNAME, "gmatch"},
    {LUA_STRLIBNAME, "lower"},   {LUA_STRLIBNAME, "match"},
    {NULL, "now"},               {NULL, "captures"},            {NULL, "waitForAny"},
    {NULL, "workerCount"},       {NULL, "Operation"},           {NULL, "OperationQueue"},
    {NULL, "select", "choose"},
};

// Keeps the globals of the script. `module` is the stack index of the module.
static void keep_globals(lua_State *L, int module) {
    enum { count = sizeof used / sizeof *used };
    lua_createtable(L, 0, count);
    lua_pushglobaltable(L);
    int globals = lua_gettop(L);
    for (size_t i = 0; i < count; i++) {
        if (used[i].library == NULL)
            lua_pushvalue(L, module);
        else
            lua_getfield(L, globals, used[i].library);
        // A sandbox may lack the library `io`.
        if (lua_istable(L, -1)) {
            lua_getfield(L, -1, used[i].name);
            lua_setfield(L, globals - 1, used[i].other_name != NULL ? used[i].other_name : used[i].name);
        }
        lua_settop(L, globals);
    }
    lua_pop(L, 1);
    clua_keep(L, CLUA_KEPT_SCRIPT_GLOBALS);
}

// Pushes the table of the functions.
static void push_functions(lua_State *L) {
    if (clua_push_kept(L, CLUA_KEPT_SCRIPTED) == LUA_TTABLE) return;
    lua_pop(L, 1);
    const clua_host *host = clua_state_of(L)->host;
    const clua_script *script = &host->script;
    lua_createtable(L, 0, (int)(host->function_count + script->function_count + script->method_count));
    // A function of the script may use the host's function whose place it takes. No global has that one, because it could not be sent.
    for (size_t i = 0; i < host->function_count; i++) {
        clua_push_function(L, host->call, host->functions[i].member);
        lua_setfield(L, -2, host->functions[i].name);
    }
    for (size_t i = 0; i < script->source_count; i++) {
        if (luaL_loadbufferx(L, script->sources[i], strlen(script->sources[i]), CLUA_SCRIPTED_CHUNK, "t") != LUA_OK) lua_error(L);
        clua_push_kept(L, CLUA_KEPT_SCRIPT_GLOBALS);
        lua_setupvalue(L, -2, 1);
        lua_pushvalue(L, -2);
        lua_call(L, 1, 0);
    }
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_SCRIPTED);
}

static int return_all(lua_State *L, int status, lua_KContext context) {
    (void)status;
    (void)context;
    return lua_gettop(L);
}

// Upvalue: the function's name.
static int call_scripted(lua_State *L) {
    int count = lua_gettop(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    push_functions(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_rawget(L, -2);
    lua_insert(L, 1);
    lua_pop(L, 1);
    lua_callk(L, count, LUA_MULTRET, 0, return_all);
    return return_all(L, LUA_OK, 0);
}

// Gives the table on top the functions with these names. The script has them under the names with `prefix`.
static void set_functions(lua_State *L, const char *prefix, const clua_member *functions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lua_pushfstring(L, "%s%s", prefix, functions[i].name);
        lua_pushcclosure(L, call_scripted, 1);
        lua_setfield(L, -2, functions[i].name);
    }
}

void clua_open_methods_of_script(lua_State *L, int kind) {
    const clua_script *script = &clua_state_of(L)->host->script;
    if (kind != 0 && kind == script->kind) set_functions(L, "queue:", script->methods, script->method_count);
}

void clua_open_script(lua_State *L) {
    const clua_script *script = &clua_state_of(L)->host->script;
    if (script->source_count == 0) return;
    set_functions(L, "", script->functions, script->function_count);
    keep_globals(L, lua_gettop(L));
    if ((clua_state_of(L)->restrictions & CLUA_NO_NETWORK) == 0) return;
    lua_pushnil(L);
    lua_setfield(L, -2, "fetch");
}
