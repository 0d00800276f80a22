#include <lua5.4/lua.h>

/// Does what the script of L1 does with `count` operations, except for running them.
void run_handles(lua_State *lua, int count);
