// Creating and finding handles. May raise, except where noted.
#ifndef CLUA_OBJECT_RAISING_H
#define CLUA_OBJECT_RAISING_H

#include "object.h"

/// See `clua_object_functions`. Never raise.
uint32_t clua_object_slot(const void *object, const void *state);
bool clua_object_set_slot(void *object, const void *state, uint32_t slot);

/// Prepares a fresh state whose collector is stopped. Needs 3 free stack slots.
void clua_objects_open(lua_State *L);

/// Pushes the state's handle for `object` (borrowed; a new handle retains it). Needs 5 free stack slots, leaves 1.
void clua_push_handle(lua_State *L, void *object, int kind);

/// As clua_push_handle, but consumes one reference, even if it raises.
void clua_push_owned_handle(lua_State *L, void *object, int kind);

/// As clua_push_owned_handle, for an object without a handle.
void clua_push_new_handle(lua_State *L, void *object, int kind);

/// Pushes a deferred handle: its object is created on demand. Needs 5 free stack slots, leaves 1.
void clua_push_deferred_handle(lua_State *L, int kind);

/// Pushes the state's handle for `object` if there is one. Never raises. Needs 3 free stack slots, leaves 1 or 0.
bool clua_push_existing_handle(lua_State *L, const void *object);

/// As clua_push_existing_handle. `index` is the handle's stack index, or 0 if unknown.
static inline bool clua_push_handle_at(lua_State *L, int index, const void *object) {
    if (index == 0) return clua_push_existing_handle(L, object);
    lua_pushvalue(L, index);
    return true;
}

/// Pins the handle at the positive stack index `index`. Never raises. Needs 2 free stack slots.
void clua_pin_handle(lua_State *L, int index, clua_handle *handle);

/// clua_unpin, then clua_push_existing_handle. `slot` is the slot of the object's handle, or 0 if unknown. Never raises. Needs 3 free stack
/// slots, leaves 1 or 0.
bool clua_push_unpinned_handle(lua_State *L, const void *object, uint32_t slot);

/// Releases the objects of the handles that Lua has freed. Never raises.
void clua_release_freed_handles(struct clua_state *state);

/// Pushes the metatable for a kind of handle, created at first use. Needs 3 free stack slots, leaves 1.
void clua_push_metatable(lua_State *L, int kind);

#endif
