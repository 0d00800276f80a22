// The functions with which a host application uses a state. May raise.
#ifndef CLUA_APPLICATION_RAISING_H
#define CLUA_APPLICATION_RAISING_H

#include <lua5.4/lua.h>

#include "application.h"

/// Stores what clua_changed_settings looks up. Needs 10 free stack slots.
void clua_settings_open(lua_State *L);

/// Pushes the `count` host values that start at `first`. Reserves its own stack slots.
void clua_push_items_here(lua_State *L, const clua_item *first, size_t count);

#endif
