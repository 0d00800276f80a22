// Flat parcels: one plain value, or a function of known code whose upvalues are plain values, written without the encoder.
//
// A technique that can be left out: OPSCRIPT_WITHOUT=flat-parcels, with which every value goes through the encoder. It costs a second way
// to write plain values and functions. It saves the protected call, and the encoder's tables of what it has met: L1 takes 0.46 of the time
// and 0.61 of the instructions, L1f 0.68 and 0.73.
#ifndef CLUA_PARCEL_FLAT_H
#define CLUA_PARCEL_FLAT_H

#include <lua5.4/lua.h>

#include "parcel.h"

/// Encodes the value on top into an empty parcel if it is a nil, a boolean, a number, a string that is not very long, or a function of
/// known code with such upvalues. Returns false for other values, or if memory runs out. Never raises.
bool encode_flat(lua_State *L, clua_parcel *parcel);

#endif
