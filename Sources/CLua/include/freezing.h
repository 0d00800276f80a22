// Frozen values: immutable tables that every state reads where they are. See Transfer/frozen.h.
#ifndef CLUA_FREEZING_H
#define CLUA_FREEZING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Whether the value at `index` is a frozen table. Never raises.
bool clua_is_frozen(lua_State *L, int index);

/// The number of elements of the frozen table at `index`; 0 for another value. Never raises.
lua_Integer clua_frozen_count(lua_State *L, int index);

/// Refuses to freeze values in this state, because bodies run in other processes, which share no memory with it. Never raises.
void clua_share_nothing(lua_State *L);

#endif
