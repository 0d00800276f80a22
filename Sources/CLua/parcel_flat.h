// Internal to this folder: the easy values, for which nothing is needed but memory: no protected call, and no encoder. Never raises.
#ifndef CLUA_PARCEL_FLAT_H
#define CLUA_PARCEL_FLAT_H

#include <lua5.4/lua.h>

#include "parcel_format.h"
#include "parcel_writer.h"

static inline void write_text(parcel_writer *writer, const char *bytes, size_t count) {
    writer_byte(writer, CLUA_TAG_STRING);
    writer_string(writer, bytes, count);
}

/// Writes the number on top.
static inline void write_number(parcel_writer *writer, lua_State *L) {
    if (lua_isinteger(L, -1)) {
        lua_Integer value = lua_tointeger(L, -1);
        writer_byte(writer, CLUA_TAG_INTEGER);
        writer_varint(writer, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
    } else {
        lua_Number value = lua_tonumber(L, -1);
        writer_byte(writer, CLUA_TAG_FLOAT);
        writer_bytes(writer, &value, sizeof value);
    }
}

/// Encodes the value on top if it is a nil, a boolean, a number, a string that is not very long, or a function whose code is known and
/// whose upvalues are such. False: it is something else, or memory ran out.
bool encode_flat(lua_State *L, clua_parcel *parcel);

#endif
