// Counts the steps of loops in C. Lua's hooks see only Lua instructions. So each loop of a library function that a script can make long counts
// its steps, and looks now and then whether the running code has to stop. May raise, except where noted.
#ifndef CLUA_COUNT_RAISING_H
#define CLUA_COUNT_RAISING_H

#include <lua5.4/lua.h>
#include <stddef.h>

#include "state.h"

/// Steps between two looks. A step takes a few nanoseconds at most, so a loop looks at least once a millisecond.
enum { CLUA_STEPS_PER_LOOK = 50000 };

/// Counts the steps since the last look as instructions, and raises a pending stop or interrupt.
void clua_look(lua_State *L);

/// Counts `steps`, each about as long as a Lua instruction.
static inline void clua_count(lua_State *L, size_t steps) {
    clua_stop *stop = &clua_state_of(L)->stop;
    stop->steps_left -= (ptrdiff_t)steps;
    if (stop->steps_left < 0) clua_look(L);
}

#endif
