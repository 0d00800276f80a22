// Internal to this folder: decoding inside a protected call. May raise.
#ifndef CLUA_PARCEL_RAISING_H
#define CLUA_PARCEL_RAISING_H

#include "parcel.h"

/// Pushes the environment that was made for the functions of the parcel, nil when none was needed, and then the values.
void clua_decode_here(lua_State *L, const clua_parcel *parcel, clua_environment environment);

#endif
