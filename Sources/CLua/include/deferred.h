// Deferred handles: handles of operations that a script has created and that only the script knows so far.
//
// Most operations are created, get a completion block, and are added to a queue. The first two steps change only the handle. The third step
// creates the operation in its final form. Any other access creates the operation at once; see `clua_to_handle`.
//
// This costs a case in each function that takes handles. It saves two of three calls of the host, and changes of an operation that other
// threads could see: L1 takes 0.58 of the time and 0.79 of the instructions.
#ifndef CLUA_DEFERRED_H
#define CLUA_DEFERRED_H

#include <lua5.4/lua.h>

#include "object.h"
#include "parcel.h"

/// Encodes the body in the deferred handle at `index` if it is a function whose code is known and whose upvalues are plain values.
/// Otherwise returns false and does nothing. Never raises. Needs 2 free stack slots.
bool clua_encode_deferred(lua_State *L, int index, clua_parcel *parcel);

/// Gives the deferred handle at `index` a reference to its object, and pins the handle if it has a callback. The caller has stored the
/// handle's slot in the object. Never raises. Needs 2 free stack slots.
void clua_give_object(lua_State *L, int index, clua_handle *handle, void *object);

/// The function of `class` that takes the place of clua_call_target for `member`, and has the same upvalue; NULL for other members. Never
/// raises.
lua_CFunction clua_deferring_function(lua_State *L, const clua_class *class, int member);

/// The property of the class that holds the callback of a deferred handle; NULL for a class without deferred handles. Never raises.
const char *clua_deferred_property(lua_State *L, const clua_class *class);

/// If a deferred handle is at stack index 1 and a function or nil at index 3, stores the latter as the handle's callback and returns true. May
/// drop the values above. Never raises.
bool clua_set_deferred_callback(lua_State *L);

#endif
