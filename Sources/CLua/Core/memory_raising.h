// What to do when memory has run out.
#ifndef CLUA_MEMORY_RAISING_H
#define CLUA_MEMORY_RAISING_H

#include <lua5.4/lua.h>

#define CLUA_NO_MEMORY "not enough memory"

/// Raises the error that Lua itself raises, but with a status of LUA_ERRRUN.
static inline int clua_no_memory(lua_State *L) {
    lua_pushliteral(L, CLUA_NO_MEMORY);  // a string that every state has from the start
    return lua_error(L);
}

/// Makes room for `count` values. For functions of which no more than a few hundred calls are nested: there it is memory that lacks.
static inline void clua_need_stack(lua_State *L, int count) {
    if (!lua_checkstack(L, count)) clua_no_memory(L);
}

#endif
