// Coroutines that are older than the record of their state. May raise.
#ifndef CLUA_COROUTINES_RAISING_H
#define CLUA_COROUTINES_RAISING_H

#include <lua5.4/lua.h>

/// Lets every reachable coroutine find the record of the state, which `L` knows. Lua itself does so for the coroutines that it makes later.
/// Cannot find a coroutine to which only the stack below a thread's first call refers, as when a C program keeps one on its stack. Call it from
/// a C function that refers to no coroutine. Reserves its own stack slots.
void clua_mark_coroutines(lua_State *L);

#endif
