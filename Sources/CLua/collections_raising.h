// Internal to this folder; may raise.
#ifndef CLUA_COLLECTIONS_RAISING_H
#define CLUA_COLLECTIONS_RAISING_H

#include <lua5.4/lua.h>

/// Prepares a fresh state. Needs 2 free stack slots.
void clua_collections_open(lua_State *L);

/// From now on, what follows the end of each garbage collection is done. Needs 2 free stack slots.
void clua_watch_here(lua_State *L);

#endif
