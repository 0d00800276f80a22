// Reading the bytes of a parcel. They are not trusted: malformed bytes, from a defect or from elsewhere, must raise an error. Everything
// here may raise, except reader_remaining and reader_peek.
#ifndef CLUA_PARCEL_READER_RAISING_H
#define CLUA_PARCEL_READER_RAISING_H

#include <lua5.4/lauxlib.h>
#include <stddef.h>
#include <stdint.h>

typedef struct parcel_reader {
    lua_State *L;
    const uint8_t *next;
    const uint8_t *end;
} parcel_reader;

static inline int reader_malformed(parcel_reader *reader) { return luaL_error(reader->L, "malformed parcel"); }

static inline size_t reader_remaining(const parcel_reader *reader) { return (size_t)(reader->end - reader->next); }

/// The next byte without consuming it, or -1 at the end.
static inline int reader_peek(const parcel_reader *reader) { return reader->next < reader->end ? *reader->next : -1; }

static inline uint8_t reader_byte(parcel_reader *reader) {
    if (reader->next == reader->end) reader_malformed(reader);
    return *reader->next++;
}

static inline const uint8_t *reader_bytes(parcel_reader *reader, size_t count) {
    if (reader_remaining(reader) < count) reader_malformed(reader);
    const uint8_t *bytes = reader->next;
    reader->next += count;
    return bytes;
}

static inline uint64_t reader_varint(parcel_reader *reader) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = reader_byte(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    reader_malformed(reader);
    return 0;
}

/// Reads a number below `limit`.
static inline uint32_t reader_count(parcel_reader *reader, size_t limit) {
    uint64_t value = reader_varint(reader);
    if (value >= limit) reader_malformed(reader);
    return (uint32_t)value;
}

static inline const char *reader_string(parcel_reader *reader, size_t *count) {
    uint64_t announced = reader_varint(reader);
    if (announced > reader_remaining(reader)) reader_malformed(reader);
    *count = (size_t)announced;
    return (const char *)reader_bytes(reader, *count);
}

#endif
