// Script functions that observe host objects.
#ifndef CLUA_OBSERVER_H
#define CLUA_OBSERVER_H

#include <lua5.4/lua.h>

/// Returns the number of observations of `object` in this state, and stores the first `most` of them, unowned, in `observations`. Never
/// raises.
int clua_observations(lua_State *L, const void *object, void **observations, int most);

/// Drops the function that the object's handle stores for the observation. Never raises.
void clua_remove_observer(lua_State *L, const void *object, const void *observation);

#endif
