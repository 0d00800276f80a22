// Making handles, and finding them. May raise, except where it says so.
#ifndef CLUA_OBJECT_RAISING_H
#define CLUA_OBJECT_RAISING_H

#include "object.h"

/// See `clua_object_functions`.
uint32_t clua_object_slot(const void *object, const void *state);
bool clua_object_set_slot(void *object, const void *state, uint32_t slot);

/// Prepares a fresh state, whose collector does not run. Needs 3 free stack slots.
void clua_objects_open(lua_State *L);

/// Pushes the state's handle for `object` (borrowed; retained when a handle is made). Needs 5 free stack slots, leaves 1.
void clua_push_handle(lua_State *L, void *object, int kind);

/// The same; takes over one reference, also when it raises.
void clua_push_owned_handle(lua_State *L, void *object, int kind);

/// The same for an object that has no handle yet.
void clua_push_new_handle(lua_State *L, void *object, int kind);

/// Pushes a handle whose object is made when something asks for it. Needs 5 free stack slots, leaves 1.
void clua_push_deferred_handle(lua_State *L, int kind);

/// Pushes the state's handle for `object` if it has one. Never raises. Needs 3 free stack slots, leaves 1 or 0.
bool clua_push_existing_handle(lua_State *L, const void *object);

/// The same; `index` is where it is on the stack, or 0.
static inline bool clua_push_handle_at(lua_State *L, int index, const void *object) {
    if (index == 0) return clua_push_existing_handle(L, object);
    lua_pushvalue(L, index);
    return true;
}

/// Pins the handle at `index`, which is not negative. Never raises. Needs 2 free stack slots.
void clua_pin_handle(lua_State *L, int index, clua_handle *handle);

/// clua_unpin, and clua_push_existing_handle for what is pinned no more. `place` is that of its handle, or 0: that has to be looked for.
/// Never raises. Needs 3 free stack slots, leaves 1 or 0.
bool clua_push_unpinned_handle(lua_State *L, const void *object, uint32_t slot);

/// Releases what the handles held that Lua has freed. Never raises.
void clua_release_freed_handles(struct clua_state *state);

/// Pushes the metatable of a kind of handle, made at first use. Needs 3 free stack slots, leaves 1.
void clua_push_metatable(lua_State *L, int kind);

#endif
