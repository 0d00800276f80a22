// Decoding and analysis inside a protected call. May raise, except where noted.
#ifndef CLUA_PARCEL_RAISING_H
#define CLUA_PARCEL_RAISING_H

#include "parcel.h"

/// Prepares a fresh state for transport: records its globals and its loaded modules. Call it once, after the libraries are opened and
/// before any script runs.
void clua_transport_open(lua_State *L);

/// The number of stack slots that decoding needs for itself.
enum { CLUA_DECODING_SLOTS = 5 };

/// Pushes the values. The CLUA_DECODING_SLOTS values on top must be nil before. Afterwards the first of them is the environment of the
/// parcel's functions, or nil if none was needed. The others are meaningless.
void clua_decode_here(lua_State *L, const clua_parcel *parcel, clua_environment environment);

/// Whether the first value of the parcel is a Lua function without parameters; false for a parcel with switches. Never raises.
bool clua_parcel_ignores_arguments(const clua_parcel *parcel);

/// Stack: a function. Pushes an array of records; see clua_captures.
int clua_push_captures(lua_State *L);

#endif
