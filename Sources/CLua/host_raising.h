// Internal to this folder: functions that may raise a Lua error.
#ifndef CLUA_HOST_RAISING_H
#define CLUA_HOST_RAISING_H

#include <lua5.4/lua.h>

#include "run.h"

/// Remembers what clua_paths_changed looks up. Needs 4 free stack slots.
void clua_paths_open(lua_State *L);

/// Pushes a value of the host.
void clua_push_item(lua_State *L, const clua_item *item);

#endif
