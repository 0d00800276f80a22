// Weak stand-ins until transport has them.
#include <lua5.4/lua.h>
#include "environment_raising.h"
__attribute__((weak)) void clua_push_real_globals(lua_State *L) { lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS); }
__attribute__((weak)) void clua_modules_changed(lua_State *L) { (void)L; }
__attribute__((weak)) void clua_enter_environment(lua_State *L) { (void)L; }
