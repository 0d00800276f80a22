// Internal to this folder; may raise.
#ifndef CLUA_OBSERVER_RAISING_H
#define CLUA_OBSERVER_RAISING_H

#include <lua5.4/lua.h>

/// The handle at `index` keeps the function at `function` for the observation on top, which stays there.
void clua_add_observer(lua_State *L, int index, int function);

#endif
