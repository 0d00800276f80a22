// Adopting a Lua state of another program, such as the interpreter `lua5.4`, as the state of a host.
//
// Each coroutine has a pointer to the record. Lua copies the pointer from the main thread to new coroutines. A search along all references in the
// state finds the existing coroutines (Calls/coroutines.c). Changes that scripts have made to the globals and the libraries are put aside while
// the state is opened like a fresh one, and then return (Libraries/stock.c). The allocator becomes ours, which also frees the blocks of
// luaL_newstate's allocator. At the end, a finalizer runs the remaining work in a coroutine, because Lua calls no hooks in finalizers. The record
// lives until Lua has freed the main thread.
#ifndef CLUA_ADOPTION_H
#define CLUA_ADOPTION_H

#include <lua5.4/lua.h>

#include "host.h"
#include "state.h"

/// Whether the state of `L` can be adopted: returns LUA_OK, or a status with a message pushed. The state must have the allocator of
/// luaL_newstate. Collects its garbage, because a finalizer could bring back coroutines that do not know the record. Needs 1 free stack slot.
/// Never raises.
int clua_prepare_adoption(lua_State *L);

/// Makes the state of `L` like one of clua_state_new, but without the global `opscript`, and pushes the module. If memory runs out, returns a
/// status with a message pushed; scripts may then have functions that use the record and `object`. Call clua_prepare_adoption before. Needs 1
/// free stack slot. Never raises. O(n) in the objects of the state, because it looks for coroutines.
///
/// Earlier changes of scripts stay as they are. The state keeps its panic function, its warnings and the mode of its collector.
int clua_state_adopt(lua_State *L, void *object, const clua_host *host, clua_adoption adoption);

/// Pushes the module if the state of `L` was adopted. Returns whether it was. Needs 2 free stack slots. Never raises.
bool clua_push_adopted_module(lua_State *L);

/// The main thread of the state. Needs 1 free stack slot. Never raises.
lua_State *clua_main_thread(lua_State *L);

#endif
