// Deferred handles: handles of operations that a script has created and that only the script knows so far.
//
// Most operations are created, get a completion block, and are added to a queue. The first two steps change only the handle. The third step
// creates the operation in its final form. Any other access creates the operation at once; see `clua_to_handle`.
#ifndef CLUA_DEFERRED_H
#define CLUA_DEFERRED_H

#include <lua5.4/lua.h>

#include "object.h"
#include "parcel.h"

/// Encodes the body in the deferred handle at `index` if it is a function whose code is known and whose upvalues are plain values.
/// Otherwise returns false and does nothing. Never raises. Needs 2 free stack slots.
bool clua_encode_deferred(lua_State *L, int index, clua_parcel *parcel);

/// Gives a reference to its object to the deferred handle at `index`, and pins the handle if it has a callback. The caller has told the
/// object its slot. Never raises. Needs 2 free stack slots.
void clua_give_object(lua_State *L, int index, clua_handle *handle, void *object);

#endif
