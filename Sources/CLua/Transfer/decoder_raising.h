// What decodes a parcel, in two files: the values, and the records that follow them. All functions may raise.
#ifndef CLUA_DECODER_RAISING_H
#define CLUA_DECODER_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "Transfer/code.h"
#include "Transfer/parcel_reader_raising.h"
#include "parcel.h"

typedef struct decoder {
    lua_State *L;
    const clua_parcel *parcel;
    parcel_reader reader;
    clua_environment environment;
    bool has_globals;
    bool has_strings;  // whether there is the table of strings
    bool needs_environment;  // what came by name may use globals, or has functions that belong to another parcel
    bool uses_environment;  // something that was decoded may look at the global table itself
    uint32_t object_count;
    uint32_t string_count;
    // Stack indices of tables, nil until needed.
    int environments;  // number -> environment
    int objects;       // ordinal -> object
    int strings;       // 1 + number -> string
    int classes;       // in turn classes, the numbers of their versions, contents, names and superclasses
    lua_Integer class_count;
    int late;          // alternately objects, and the metatables that they get at the end; the values follow on the stack
    lua_Integer late_count;
} decoder;

static inline int malformed(decoder *d) { return reader_malformed(&d->reader); }
static inline uint32_t read_count(decoder *d, size_t limit) { return reader_count(&d->reader, limit); }

/// Pushes the next value. `depth` is how many objects are being read around it. Whoever pushes more than scalars makes room.
void decode_value(decoder *d, int depth);

/// Pushes a value with a tag of at most CLUA_TAG_STRING, which has been read. Needs 1 free stack slot.
void decode_plain(parcel_reader *reader, uint8_t tag);

/// Pushes the next string, whose tag has been read.
void decoder_push_string(decoder *d);

/// Pushes the table whose tag has been read.
void decode_table(decoder *d, bool is_kept, int depth);

/// Of a table, how many values are at 1, 2, 3 …, and how many pairs follow.
void decode_table_counts(decoder *d, uint32_t counts[2]);

/// Fills the table on top, whose counts have been read.
void decode_table_body(decoder *d, const uint32_t counts[2], int depth);

/// Sets the upvalues of the new function on top; `code` is its code, or NULL where that is not at hand.
void decode_upvalues(decoder *d, const clua_code *code, int upvalue_count, int depth);

/// Stores the value on top, which stays, in the table at stack index `table`, made when it is needed first.
void decoder_keep(decoder *d, int table, lua_Integer number);

/// Pushes an object that has been met.
void decoder_push_object(decoder *d, uint32_t ordinal);

/// Pushes the environment with this number.
void decoder_push_environment(decoder *d, uint32_t number);

/// Reads all records.
void decode_records(decoder *d);

#endif
