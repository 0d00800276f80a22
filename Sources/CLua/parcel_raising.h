// Internal to this folder: decoding inside a protected call. May raise.
#ifndef CLUA_PARCEL_RAISING_H
#define CLUA_PARCEL_RAISING_H

#include "parcel.h"

/// How many places on the stack decoding needs for itself.
enum { CLUA_DECODING_SLOTS = 5 };

/// Pushes the values. The topmost CLUA_DECODING_SLOTS values below must be nil. Afterwards the first of them is the environment that
/// was made for the functions of the parcel, nil when none was needed, and the others are of no use.
void clua_decode_here(lua_State *L, const clua_parcel *parcel, clua_environment environment);

/// Whether the first value of the parcel is a Lua function that takes no arguments.
bool clua_parcel_ignores_arguments(const clua_parcel *parcel);

#endif
