// Script functions that observe host objects. May raise, except where noted.
#ifndef CLUA_OBSERVER_RAISING_H
#define CLUA_OBSERVER_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "object.h"

/// Stores the function at `function` in the handle at `index`, under the observation on top, which stays there.
void clua_add_observer(lua_State *L, int index, int function);

/// Pushes the functions in the handle on top. Returns whether they are a table, that is, include observers. Never raises. Needs 1 free stack
/// slot, leaves 1.
static inline bool clua_push_observers(lua_State *L) { return lua_getiuservalue(L, -1, CLUA_USER_VALUE_FUNCTIONS) == LUA_TTABLE; }

#endif
