// The steps of opening a state that this layer or another program has made.
#ifndef CLUA_OPENING_RAISING_H
#define CLUA_OPENING_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "host.h"
#include "state.h"

/// Makes the record of a state that has no limit. Returns NULL if memory runs out. Never raises.
clua_state *clua_record_new(void *object, const clua_host *host);

/// The allocator of all states; `context` is the record. Never raises.
void *clua_allocate(void *context, void *block, size_t old_size, size_t new_size);

/// Makes the registry entries. May raise. Needs 5 free stack slots.
void clua_open_kept(lua_State *L);

/// Replaces functions of the libraries, which must be those of a fresh state, adds the module, and pushes it. With `is_global`, the module is
/// also a global. May raise. Needs 20 free stack slots, and leaves 1.
void clua_open_module(lua_State *L, bool is_global);

/// Replaces `require` by one that loads modules for bodies. May raise. Needs 6 free stack slots.
void clua_open_require(lua_State *L);

#endif
