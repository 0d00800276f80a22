// A Lua state made for a host: its libraries, the host's classes, and the way from the state back to the host.
#ifndef CLUA_LIFETIME_H
#define CLUA_LIFETIME_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Makes a state with Lua's standard libraries, the host's classes and functions in the module `opscript` (a global, and in
/// `package.loaded`), and transport. With `ignore_environment`, `LUA_PATH` and its kin have no effect. Returns NULL when
/// memory ran out. The state must be closed by clua_state_close.
lua_State *clua_state_new(void *object, const clua_host *host, bool ignore_environment);

/// Closes the state: runs its finalizers, frees its memory.
void clua_state_close(lua_State *L);

/// The two halves of that. What the second releases, objects of the host, must not use Lua any more.
void clua_lua_close(lua_State *L);
void clua_state_free(clua_state *state);

#endif
