// The standard libraries of our states, from outside.
#ifndef CLUA_LIBRARIES_H
#define CLUA_LIBRARIES_H

#include <lua5.4/lua.h>

/// From now on bodies see of the state's own globals only what a fresh state has, and what preludes and the host have added: what
/// modules do to the globals is seen by the bodies that require them. For the states of workers, before anything runs there. Never raises.
void clua_separate_globals(lua_State *L);

/// Shows warnings from now on. Never raises.
void clua_enable_warnings(lua_State *L);

/// Lua's release and copyright.
const char *clua_copyright(void);

#endif
