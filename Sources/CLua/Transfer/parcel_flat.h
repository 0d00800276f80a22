// Flat values: encoding them needs memory only, no protected call and no encoder. Nothing here raises.
#ifndef CLUA_PARCEL_FLAT_H
#define CLUA_PARCEL_FLAT_H

#include <lua5.4/lua.h>
#include <string.h>

#include "Transfer/parcel_format.h"
#include "Transfer/parcel_writer.h"

static inline void write_text(parcel_writer *writer, const char *bytes, size_t count) {
    writer_byte(writer, CLUA_TAG_STRING);
    writer_string(writer, bytes, count);
}

enum { CLUA_MAX_SCALAR_BYTES = 11 };

/// Writes the number on top to `bytes`. Returns the number of bytes.
static inline size_t put_number(uint8_t *bytes, lua_State *L) {
    if (lua_isinteger(L, -1)) {
        lua_Integer value = lua_tointeger(L, -1);
        bytes[0] = CLUA_TAG_INTEGER;
        return 1 + put_varint(bytes + 1, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
    }
    lua_Number value = lua_tonumber(L, -1);
    bytes[0] = CLUA_TAG_FLOAT;
    memcpy(bytes + 1, &value, sizeof value);
    return 1 + sizeof value;
}

static inline void write_number(parcel_writer *writer, lua_State *L) {
    if (writer_reserve(writer, CLUA_MAX_SCALAR_BYTES)) writer->count += put_number(writer->bytes + writer->count, L);
}

/// Encodes the value on top into an empty parcel if it is a nil, a boolean or a number. Otherwise returns false.
static inline bool encode_scalar(lua_State *L, clua_parcel *parcel) {
    uint8_t *bytes = (uint8_t *)parcel->few;
    size_t count = 1;
    switch (lua_type(L, -1)) {
    case LUA_TNIL: bytes[1] = CLUA_TAG_NIL; break;
    case LUA_TBOOLEAN: bytes[1] = lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE; break;
    case LUA_TNUMBER: count = put_number(bytes + 1, L); break;
    default: return false;
    }
    bytes[0] = 0;
    bytes[1 + count] = CLUA_TAG_END;
    parcel->byte_count = count + 2;
    parcel->value_count = 1;
    parcel->is_flat = true;
    return true;
}

/// Encodes the value on top if it is a nil, a boolean, a number, a string that is not very long, or a function of known code with such
/// upvalues. Returns false for other values, or if memory runs out.
bool encode_flat(lua_State *L, clua_parcel *parcel);

#endif
