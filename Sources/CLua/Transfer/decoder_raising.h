// The decoder of parcels, in two files: one for values, one for the records that follow them. All functions may raise.
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
    bool has_globals, has_identities;
    bool is_from_process;  // a worker process has sent the values, so no code runs here on their arrival
    bool has_strings;  // the table of strings exists
    bool needs_environment;  // a value that travels by name may use globals, or has functions from another parcel
    bool uses_environment;  // some decoded value may inspect the global table itself
    uint64_t promised_count;  // places and pairs of tables whose bodies follow
    uint32_t object_count;
    uint32_t string_count;
    // Stack indices of tables, each nil until needed.
    int environments;  // number -> environment
    int objects;       // ordinal -> object
    int strings;       // 1 + number -> string
    int classes;       // groups of five: class, version, contents, name, superclass
    lua_Integer class_count;
    int identities;    // ordinal -> number of the class, table -> number; if this state's own table replaces the copy: ordinal -> true, table -> true
    int values;        // the decoded values follow this stack index
} decoder;

static inline int malformed(decoder *d) { return reader_malformed(&d->reader); }
static inline uint32_t read_count(decoder *d, size_t limit) { return reader_count(&d->reader, limit); }

/// Pushes the next value. `depth` counts the objects around it. A function that pushes more than scalars reserves stack slots.
void decode_value(decoder *d, int depth);

/// Pushes the value whose tag, at most CLUA_TAG_STRING, was read. Needs 1 free stack slot.
void decode_plain(parcel_reader *reader, uint8_t tag);

/// Pushes the string whose tag was read, or a name, which has no tag.
void decoder_push_string(decoder *d);

/// Pushes the table whose tag was read.
void decode_table(decoder *d, bool is_kept, int depth);

/// Reads two counts of a table: the values at 1, 2, 3 …, and the pairs. Returns whether the values have places in an array part.
bool decode_table_counts(decoder *d, uint32_t counts[2]);

/// Fills the table on top, whose counts were read. If the state `had` it before, reads and drops the contents; a registry gets missing entries.
void decode_table_body(decoder *d, const uint32_t counts[2], bool had, int depth);

/// Sets the upvalues of the new function on top. `code` is its code, or NULL if unknown.
void decode_upvalues(decoder *d, const clua_code *code, int upvalue_count, int depth);

/// Stores the value on top, which stays there, in the table at stack index `table`. Creates the table on first use.
void decoder_keep(decoder *d, int table, lua_Integer number);

/// Pushes the object with this ordinal.
void decoder_push_object(decoder *d, uint32_t ordinal);

/// Pushes the environment with this number.
void decoder_push_environment(decoder *d, uint32_t number);

/// Decodes all records.
void decode_records(decoder *d);

#endif
