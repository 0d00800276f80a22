// Reading Lua values without raising.
#ifndef CLUA_VALUES_H
#define CLUA_VALUES_H

#include <lua5.4/lua.h>
#include <stddef.h>

/// lua_next, for a traversal during which no code of Lua runs. So nothing changes the table, it always has the key, and lua_next cannot raise.
/// An allocation may run the collector, and with it finalizers. Needs 1 free stack slot.
static inline int clua_next(lua_State *L, int index) { return lua_next(L, index); }

/// The bytes of the string at `index`, or NULL for any other type. Unlike lua_tolstring, it never converts a number in place. Never raises.
static inline const char *clua_string(lua_State *L, int index, size_t *count) {
    return lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, count) : NULL;
}

/// A copy of the bytes with a zero behind them, for free(). NULL if memory runs out.
char *clua_copy_bytes(const char *bytes, size_t count);

/// The number of values in the table at `index`: its field `n`, as from `table.pack`, or else its length. Never raises.
lua_Integer clua_packed_length(lua_State *L, int index);

#endif
