// The iterators of the standard libraries, which another state can make anew.
#ifndef CLUA_ITERATORS_RAISING_H
#define CLUA_ITERATORS_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Records the iterators of a state with fresh libraries. May raise. Needs 4 free stack slots.
void clua_open_iterators(lua_State *L);

/// Whether the value at `index` is the iterator of `ipairs` or `utf8.codes`, or one of `string.gmatch` that has not begun. Never raises. Needs 1 slot.
bool clua_is_new_iterator(lua_State *L, int index);

/// Whether the function at `index` is an iterator of `string.gmatch`. Never raises. Needs 1 slot.
bool clua_is_match_iterator(lua_State *L, int index);

/// A Lua function: returns the function, and its arguments, that makes an iterator like the one at stack index 1.
int clua_take_iterator_apart(lua_State *L);

#endif
