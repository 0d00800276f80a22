// The format of a parcel's bytes.
//
// parcel  := flags switches? value* record* END identities?
// switches := count (name value)*    globals with plain values, which modules among the values may read while they are loaded
// record  := CLASS_BODY ordinal version name superclass contents | BODY ordinal body | GLOBAL environment name value
//          | TABLE_KEPT body | REBUILT arguments count | FIXUP container key value
//
// The classes that many parcels have are not among these bytes. They are the last long string, which parcels share:
// classes := value* identities, as if they stood before the values
//
// Every table, function, class and rebuilt object gets an ordinal when the encoder begins to write it. Nested objects are written inline up
// to a depth. A deeper object is written without its body, which follows in a record, so that neither side needs a stack as deep as the data.
// An object that is met again is written as a reference to its ordinal. Its first tag is then changed to KEPT, so that the decoder remembers
// no other objects.
//
// A rebuilt object is the first result of a function. The function and its arguments are in a table, which has the ordinal `arguments`. The
// object itself appears only in FIXUP records. Each says where the object belongs: a table and a key, a function and an upvalue number, or
// nil and a value number. A FIXUP whose container is a module, or a table in a field of one, is a change that the script has made there.
#ifndef CLUA_PARCEL_FORMAT_H
#define CLUA_PARCEL_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    CLUA_TAG_NIL,
    CLUA_TAG_FALSE,
    CLUA_TAG_TRUE,
    CLUA_TAG_INTEGER,         // zigzag varint
    CLUA_TAG_FLOAT,           // 8 bytes, as they are
    CLUA_TAG_STRING,          // count, bytes
    CLUA_TAG_STRING_KEPT,     // as STRING, referred to again later
    CLUA_TAG_STRING_AGAIN,    // number of the kept string
    CLUA_TAG_STRING_SHARED,   // number of the shared string
    CLUA_TAG_TABLE,           // body
    CLUA_TAG_TABLE_KEPT,      // body
    CLUA_TAG_TABLE_LATER,     // the numbers of places in its array part and of pairs, both 0 if `#` returns 0; the body is in a record
    CLUA_TAG_FUNCTION,        // code, body
    CLUA_TAG_FUNCTION_KEPT,   // code, body
    CLUA_TAG_FUNCTION_LATER,  // code; the body is in a record
    CLUA_TAG_OBJECT_AGAIN,    // ordinal
    CLUA_TAG_HANDLE,          // number of the reference
    CLUA_TAG_INSTANCE,        // number of the reference, its class
    CLUA_TAG_CLASS,           // number of the reference; the contents are in a record
    CLUA_TAG_ENVIRONMENT,     // number of the environment
    CLUA_TAG_MODULE,          // name
    CLUA_TAG_MODULE_FIELD,    // name, key
    CLUA_TAG_FROZEN,          // number of the frozen table
    CLUA_TAG_UPVALUE_AGAIN,   // ordinal of a function, number of its upvalue; only in function bodies
    CLUA_TAG_BODY,            // ordinal, body
    CLUA_TAG_CLASS_BODY,      // ordinal, version, name, superclass, table
    CLUA_TAG_GLOBAL,          // environment, name, value
    CLUA_TAG_REBUILT,         // ordinal of a table, number of values in it
    CLUA_TAG_FIXUP,           // container, key, value
    CLUA_TAG_END
};

// The body of a table: 4 bytes, the number of values at 1, 2, 3 …; 4 bytes, the number of pairs; the values; the pairs; one of these, and
// then the metatable if there is one.
//
// Values may be nil. The last one is not, unless it is rebuilt later: the copy's array part ends there, so that `#` returns this number. With
// CLUA_NO_ARRAY_PART added to the number, the copy has only a hash part. A pair that is rebuilt later has two nils in its place. So the
// copy has room for all pairs, and Lua does not change its array part.
#define CLUA_NO_ARRAY_PART (UINT32_C(1) << 31)
enum {
    CLUA_NO_METATABLE,
    CLUA_METATABLE
};

// The first byte of a parcel. The host adds CLUA_FROM_PROCESS to what a worker process has sent: such a parcel calls no function on arrival but `require`.
enum { CLUA_HAS_GLOBALS = 1, CLUA_HAS_SWITCHES = 2, CLUA_HAS_IDENTITIES = 4, CLUA_HAS_CLASSES = 8, CLUA_FROM_PROCESS = 128 };

// identities := (4 bytes, the ordinal of a table; 8 bytes, the number of the class)*; 4 bytes, how many there are. No value depends on them.
enum { CLUA_IDENTITY_BYTES = 12 };

/// How many of the bytes, at their end, have the identities; 0 if the bytes are wrong.
static inline size_t clua_identities_size(const uint8_t *bytes, size_t count) {
    uint32_t listed;
    if (count < sizeof listed) return 0;
    memcpy(&listed, bytes + count - sizeof listed, sizeof listed);
    size_t size = (size_t)listed * CLUA_IDENTITY_BYTES + sizeof listed;
    return size > count ? 0 : size;
}

enum {
    CLUA_INLINE_DEPTH = 64,    // objects nested deeper are written in records
    CLUA_MAX_KEPT_STRING = 40  // Lua does not intern longer strings, so their addresses identify nothing
};

#endif
