#include <lua5.4/lua.h>

/// Makes and adds `count` operations as the script of L1 does, and does not run them.
void run_handles(lua_State *lua, int count);
