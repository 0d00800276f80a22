// Decoding, and looking at what would be sent, inside a protected call. May raise.
#ifndef CLUA_PARCEL_RAISING_H
#define CLUA_PARCEL_RAISING_H

#include "parcel.h"

/// Prepares a fresh state for transport: remembers what its globals and loaded modules are. Call it once, after the
/// libraries are opened and before any script runs.
void clua_transport_open(lua_State *L);

/// How many places on the stack decoding needs for itself.
enum { CLUA_DECODING_SLOTS = 5 };

/// Pushes the values. The topmost CLUA_DECODING_SLOTS values below must be nil. Afterwards the first of them is the environment that
/// was made for the functions of the parcel, nil when none was needed, and the others are of no use.
void clua_decode_here(lua_State *L, const clua_parcel *parcel, clua_environment environment);

/// Whether the first value of the parcel is a Lua function that takes no arguments.
bool clua_parcel_ignores_arguments(const clua_parcel *parcel);

/// Stack: a function. Leaves an array of records, see clua_captures.
int clua_push_captures(lua_State *L);

#endif
