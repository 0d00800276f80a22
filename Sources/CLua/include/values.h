// Reading Lua values without raising.
#ifndef CLUA_VALUES_H
#define CLUA_VALUES_H

#include <lua5.4/lua.h>
#include <stddef.h>

/// lua_next, for a traversal that does not change the table: then the key always comes from the table, and nothing can raise.
/// Needs 1 free stack slot.
static inline int clua_next(lua_State *L, int index) { return lua_next(L, index); }

/// The bytes of the string at `index`; NULL for every other type, so that no number is converted in place. Never raises.
static inline const char *clua_string(lua_State *L, int index, size_t *count) {
    return lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, count) : NULL;
}

/// How many values the table at `index` holds, as `table.pack` or a plain array says it. Never raises. Needs 1 free stack slot.
lua_Integer clua_packed_length(lua_State *L, int index);

#endif
