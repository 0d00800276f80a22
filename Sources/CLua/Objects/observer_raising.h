// Functions of scripts that observe host objects. May raise, except where it says so.
#ifndef CLUA_OBSERVER_RAISING_H
#define CLUA_OBSERVER_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "object.h"

/// The handle at `index` keeps the function at `function` for the observation on top, which stays there.
void clua_add_observer(lua_State *L, int index, int function);

/// Pushes what the handle on top has for its observers, if that is a table. Never raises. Needs 1 free stack slot, leaves 1.
static inline bool clua_push_observers(lua_State *L) { return lua_getiuservalue(L, -1, CLUA_USER_VALUE_FUNCTIONS) == LUA_TTABLE; }

#endif
