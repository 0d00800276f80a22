// Raising when memory runs out.
#ifndef CLUA_MEMORY_RAISING_H
#define CLUA_MEMORY_RAISING_H

#include <lua5.4/lua.h>

#define CLUA_NO_MEMORY "not enough memory"

/// Raises Lua's own out-of-memory error: `lua_error` knows the message, and gives it the status LUA_ERRMEM.
static inline int clua_no_memory(lua_State *L) {
    lua_pushliteral(L, CLUA_NO_MEMORY);  // every state holds this string from the start, so pushing it allocates nothing
    return lua_error(L);
}

/// Reserves `count` stack slots. For functions that nest at most a few hundred deep, where a failure means lack of memory. May raise.
static inline void clua_need_stack(lua_State *L, int count) {
    if (!lua_checkstack(L, count)) clua_no_memory(L);
}

#endif
