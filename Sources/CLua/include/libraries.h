// The standard libraries of a state, as the host sees them.
#ifndef CLUA_LIBRARIES_H
#define CLUA_LIBRARIES_H

#include <lua5.4/lua.h>
#include <stdint.h>

#include "allowance.h"

/// Counts the output of the state from now on. `output` must outlive the state. Never raises.
void clua_limit_output(lua_State *L, clua_allowance *output);

/// Makes bodies see only the globals of a fresh state plus those of preludes and the host. A module's changes of the globals are visible
/// only to the bodies that require it. For worker states, before anything runs there. Never raises.
void clua_separate_globals(lua_State *L);

/// Turns warnings on. Never raises.
void clua_enable_warnings(lua_State *L);

/// Seeds `math.random` with two numbers. If there is no memory for that, the sequence stays random. Never raises.
void clua_seed_random(lua_State *L, uint64_t first, uint64_t second);

/// Lua's version and copyright.
const char *clua_copyright(void);

/// Makes the end of the process check that stdout was written. If not, the process ends with a message and status 1. Call once.
void clua_check_output_at_exit(void);

#endif
