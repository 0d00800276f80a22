// Adopting a Lua state that somebody else has made, such as the interpreter `lua5.4`, as the state of a host.
#ifndef CLUA_ADOPTION_H
#define CLUA_ADOPTION_H

#include <lua5.4/lua.h>

#include "host.h"
#include "state.h"

/// Gives the state of `L` what a state of clua_state_new has, without the global `opscript`, and pushes the module. Or returns a status, with
/// a message pushed. Needs 1 free stack slot. Never raises. O(n) in the objects of the state: collects its garbage and finds its coroutines.
///
/// What scripts have changed so far stays as it is. The state keeps its panic function, its warnings and the mode of its collector. It must
/// have the allocator of luaL_newstate.
int clua_state_adopt(lua_State *L, void *object, const clua_host *host, clua_adoption adoption);

/// Pushes the module if the state of `L` was adopted. Returns whether it was. Needs 2 free stack slots. Never raises.
bool clua_push_adopted_module(lua_State *L);

/// The main thread of the state. Needs 1 free stack slot. Never raises.
lua_State *clua_main_thread(lua_State *L);

#endif
