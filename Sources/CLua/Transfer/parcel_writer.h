// Writing the bytes of a parcel. Nothing here raises.
#ifndef CLUA_PARCEL_WRITER_H
#define CLUA_PARCEL_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "Transfer/parcel_format.h"
#include "parcel.h"

/// Must not move, because it may point into itself.
typedef struct parcel_writer {
    uint8_t *bytes;  // `few`, or owned
    size_t count;
    size_t capacity;
    bool failed;  // memory ran out, and all later bytes are lost
    uint8_t few[CLUA_FEW_BYTES];
} parcel_writer;

static inline void writer_init(parcel_writer *writer) {
    writer->bytes = writer->few;
    writer->count = 0;
    writer->capacity = sizeof writer->few;
    writer->failed = false;
}

static inline void writer_free(parcel_writer *writer) {
    if (writer->bytes != writer->few) free(writer->bytes);
    writer_init(writer);
}

/// Removes all bytes, and keeps their room.
static inline void writer_truncate(parcel_writer *writer) { writer->count = 0; }

/// Removes the bytes from `start` to `end`, and all room that is not needed.
static inline void writer_remove(parcel_writer *writer, size_t start, size_t end) {
    memmove(writer->bytes + start, writer->bytes + end, writer->count - end);
    writer->count -= end - start;
    uint8_t *bytes = writer->bytes == writer->few ? NULL : realloc(writer->bytes, writer->count);
    if (bytes == NULL) return;
    writer->bytes = bytes;
    writer->capacity = writer->count;
}

/// Moves the bytes to `parcel`.
static inline void writer_finish(parcel_writer *writer, clua_parcel *parcel) {
    parcel->byte_count = writer->count;
    if (writer->bytes == writer->few) {
        memcpy(parcel->few, writer->few, sizeof parcel->few);
    } else {
        parcel->bytes = writer->bytes;
        parcel->has_block = true;
        writer_init(writer);
    }
}

/// Gives the bytes to the caller in memory from malloc, and empties the writer. Returns false if memory has run out.
static inline bool writer_take(parcel_writer *writer, uint8_t **bytes, size_t *count) {
    *count = writer->count;
    bool is_few = writer->bytes == writer->few;
    *bytes = writer->failed ? NULL : is_few ? malloc(sizeof writer->few) : realloc(writer->bytes, writer->count);
    if (*bytes != NULL && is_few) memcpy(*bytes, writer->few, writer->count);
    if (*bytes != NULL) writer_init(writer); else writer_free(writer);
    return *bytes != NULL;
}

static inline bool writer_reserve(parcel_writer *writer, size_t count) {
    if (writer->capacity - writer->count >= count) return true;
    if (writer->failed) return false;
    size_t needed = writer->count + count, capacity = writer->capacity * 4;
    if (capacity < needed) capacity = needed + 64;  // probably a long string and little else
    bool are_few = writer->bytes == writer->few;
    uint8_t *bytes = realloc(are_few ? NULL : writer->bytes, capacity);
    if (bytes == NULL) {
        writer->failed = true;
        return false;
    }
    if (are_few) memcpy(bytes, writer->few, writer->count);
    writer->bytes = bytes;
    writer->capacity = capacity;
    return true;
}

static inline void writer_byte(parcel_writer *writer, uint8_t byte) {
    if (writer_reserve(writer, 1)) writer->bytes[writer->count++] = byte;
}

static inline void writer_bytes(parcel_writer *writer, const void *bytes, size_t count) {
    if (!writer_reserve(writer, count)) return;
    if (count > 0) memcpy(writer->bytes + writer->count, bytes, count);
    writer->count += count;
}

/// Writes 7 bits per byte, the low ones first: at most 10 bytes. Returns the number of bytes.
static inline size_t put_varint(uint8_t *bytes, uint64_t value) {
    size_t count = 0;
    while (value >= 0x80) {
        bytes[count++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[count++] = (uint8_t)value;
    return count;
}

static inline void writer_varint(parcel_writer *writer, uint64_t value) {
    if (writer_reserve(writer, 10)) writer->count += put_varint(writer->bytes + writer->count, value);
}

static inline void writer_string(parcel_writer *writer, const char *bytes, size_t count) {
    writer_varint(writer, count);
    writer_bytes(writer, bytes, count);
}

static inline void write_text(parcel_writer *writer, const char *bytes, size_t count) {
    // Reserves no more than a short string needs, because the parcel may have nothing else.
    if (!writer_reserve(writer, (count < 0x80 ? 2 : 11) + count)) return;
    uint8_t *next = writer->bytes + writer->count;
    *next++ = CLUA_TAG_STRING;
    next += put_varint(next, count);
    if (count > 0) memcpy(next, bytes, count);
    writer->count = (size_t)(next - writer->bytes) + count;
}

enum { CLUA_MAX_NUMBER_BYTES = 11 };

/// Writes the number at `index`, with its tag. Returns the number of bytes.
static inline size_t put_number(uint8_t *bytes, lua_State *L, int index) {
    if (lua_isinteger(L, index)) {
        lua_Integer value = lua_tointeger(L, index);
        bytes[0] = CLUA_TAG_INTEGER;
        return 1 + put_varint(bytes + 1, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
    }
    lua_Number value = lua_tonumber(L, index);
    bytes[0] = CLUA_TAG_FLOAT;
    memcpy(bytes + 1, &value, sizeof value);
    return 1 + sizeof value;
}

static inline void write_number(parcel_writer *writer, lua_State *L, int index) {
    if (writer_reserve(writer, CLUA_MAX_NUMBER_BYTES)) writer->count += put_number(writer->bytes + writer->count, L, index);
}

#endif
