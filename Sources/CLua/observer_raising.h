// Internal to this folder; may raise.
#ifndef CLUA_OBSERVER_RAISING_H
#define CLUA_OBSERVER_RAISING_H

#include <lua5.4/lua.h>

/// Prepares a fresh state. Needs 3 free stack slots.
void clua_observers_open(lua_State *L);

/// The handle at `index` keeps the function at `function` for the observation on top, which stays there.
void clua_add_observer(lua_State *L, int index, int function);

#endif
