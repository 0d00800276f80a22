// The standard libraries of a state, as the host sees them.
#ifndef CLUA_LIBRARIES_H
#define CLUA_LIBRARIES_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state.h"

/// How many bytes the states of a runtime may still print. Any thread.
typedef struct clua_output clua_output;
clua_output *clua_output_new(long long limit);
void clua_output_free(clua_output *output);

/// Takes `count` bytes off. Returns false if fewer were left. `output` may be NULL: no limit.
bool clua_output_spend(clua_output *output, size_t count);

/// What the state prints counts from now on. `output` must outlive the state. Never raises.
void clua_limit_output(lua_State *L, clua_output *output);

/// Makes bodies see only the globals of a fresh state plus those of preludes and the host. What a module does to the globals is visible
/// only to the bodies that require it. For worker states, before anything runs there. Never raises.
void clua_separate_globals(lua_State *L);

/// Turns warnings on. Never raises.
void clua_enable_warnings(lua_State *L);

/// Seeds `math.random` with two numbers. If there is no memory for that, the sequence stays random. Never raises.
void clua_seed_random(lua_State *L, uint64_t first, uint64_t second);

/// Lua's version and copyright.
const char *clua_copyright(void);

#endif
