// Flat parcels: one plain value, a table of a few of them, or a function of known code whose upvalues are plain values, written without the
// encoder and, but for functions, read without the decoder.
//
// They cost a second way to write plain values, tables of them and functions, and to read all but the functions. They save protected calls,
// and the tables of values met before: L1 takes 0.46 of the time and 0.61 of the instructions, L1f 0.68 and 0.73, C1 0.53 and 0.52, C1-row
// 0.56 and 0.72.
#ifndef CLUA_PARCEL_FLAT_H
#define CLUA_PARCEL_FLAT_H

#include <lua5.4/lua.h>

#include "parcel.h"

/// Encodes the value on top into an empty parcel if it is a nil, a boolean, a number, a string that is not very long, a table without a
/// metatable of a few such keys and values, or a function of known code with such upvalues. Returns false for other values, or if memory runs
/// out. Never raises.
bool encode_flat(lua_State *L, clua_parcel *parcel);

/// If the parcel is flat and has no function, decodes it as clua_decode does, and stores the status. Returns false for other parcels. Never
/// raises.
bool decode_flat(lua_State *L, const clua_parcel *parcel, int *status);

#endif
