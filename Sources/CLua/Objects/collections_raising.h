// Work at the end of a garbage collection. May raise.
#ifndef CLUA_COLLECTIONS_RAISING_H
#define CLUA_COLLECTIONS_RAISING_H

#include <lua5.4/lua.h>

/// Prepares a fresh state. Call it after clua_objects_open. Needs 2 free stack slots.
void clua_collections_open(lua_State *L);

/// Makes sure that the state notices the end of the next garbage collection. Needs 3 free stack slots.
void clua_need_watcher(lua_State *L);

#endif
