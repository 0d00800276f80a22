#define _DEFAULT_SOURCE  // on_exit
#include "COpscriptModule.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <stdlib.h>

int luaopen_opscript(lua_State *L);

int luaopen_opscript(lua_State *L) {
    luaL_checkversion(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    // The interpreter sets the global `arg`. Other programs decide about their status themselves.
    bool is_interpreter = lua_getglobal(L, "arg") == LUA_TTABLE;
    lua_settop(L, 0);
    return opscript_module_open(L, is_interpreter) == LUA_OK ? 1 : lua_error(L);
}

// A function that `on_exit` has registered may call `exit` in glibc: the process then continues with the remaining functions.
static void change_status(int status, void *unused) {
    (void)unused;
    if (status == 0) exit(1);
}

void opscript_module_fail_process(void) { on_exit(change_status, NULL); }
