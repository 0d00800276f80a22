// Coroutines that are older than the record of their state. May raise.
#ifndef CLUA_COROUTINES_RAISING_H
#define CLUA_COROUTINES_RAISING_H

#include <lua5.4/lua.h>

/// Lets every coroutine that can be reached find the record of the state, which `L` knows. Lua does this itself for those that it makes later.
/// Cannot find what only the stack below the first call of a thread refers to, as in a C program that keeps a coroutine on its stack. Call it
/// from a C function that refers to no coroutine. Reserves its own stack slots.
void clua_mark_coroutines(lua_State *L);

#endif
