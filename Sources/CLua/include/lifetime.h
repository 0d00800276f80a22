// Creating and closing the Lua state of a host.
#ifndef CLUA_LIFETIME_H
#define CLUA_LIFETIME_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Creates a state with Lua's standard libraries, transport, and the host's classes and functions in the module `opscript` (a global, and
/// in `package.loaded`), without the features that `restrictions` (clua_restriction bits) take away. Returns NULL if memory runs out. The caller
/// closes the state with clua_state_close.
lua_State *clua_state_new(void *object, const clua_host *host, unsigned restrictions);

/// Closes the state: runs its finalizers and frees its memory.
void clua_state_close(lua_State *L);

/// The two halves of clua_state_close. Host objects that clua_state_free releases must not use Lua any more.
void clua_lua_close(lua_State *L);
void clua_state_free(clua_state *state);

/// The first step of clua_lua_close: detaches the calling thread and the signal handlers from the state. For a state that another program
/// closes.
void clua_state_leave(lua_State *L);

#endif
