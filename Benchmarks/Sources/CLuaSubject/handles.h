#include <lua5.4/lua.h>

/// Does with `count` operations what the script of L1 does, but for the operations themselves.
void run_handles(lua_State *lua, int count);
