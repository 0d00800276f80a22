// Functions of scripts that observe host objects.
#ifndef CLUA_OBSERVER_H
#define CLUA_OBSERVER_H

#include <lua5.4/lua.h>

/// How many observations of `object` there are in this state; the first `most` of them in `observations`, unowned. Never raises.
int clua_observations(lua_State *L, const void *object, void **observations, int most);

/// Lets go of the function that the handle of the object keeps for the observation. Never raises.
void clua_remove_observer(lua_State *L, const void *object, const void *observation);

#endif
