// Deferred handles: those of operations that a script has made, and nothing but the script knows yet.
//
// Most operations are made, get a completion block, and are added. Of the first two only the handle knows, and when the third comes the
// operation is made as it will be. Whatever else asks for the operation has it made at once: see `clua_to_handle`.
#ifndef CLUA_DEFERRED_H
#define CLUA_DEFERRED_H

#include <lua5.4/lua.h>

#include "object.h"
#include "parcel.h"

/// Encodes the body in the deferred handle at `index`, if that is a function of known code that has captured plain values only; false, and
/// has done nothing, for any other one. Never raises. Needs 2 free stack slots.
bool clua_encode_deferred(lua_State *L, int index, clua_parcel *parcel);

/// The deferred handle at `index` takes over a reference to its object, which has been told its place, and is pinned if it has a callback. Never
/// raises. Needs 2 free stack slots.
void clua_give_object(lua_State *L, int index, clua_handle *handle, void *object);

#endif
