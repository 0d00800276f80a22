// Parcels: Lua values on their way from one state to another.
//
// A parcel is immutable bytes plus counted references to host objects and to compiled code. The sending state encodes it, and receiving
// states decode it any number of times. Neither takes a lock. Both run in protected mode with only C frames below them, so a host may call
// them directly.
#ifndef CLUA_PARCEL_H
#define CLUA_PARCEL_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state.h"

struct clua_code;
struct clua_shared_string;
struct frozen_table;
struct clua_ledger;

typedef struct clua_reference {
    void *object;  // owned, unless `is_unowned`
    int kind;
    bool is_unowned;
} clua_reference;

/// The parts that only few parcels need. All of it is owned.
typedef struct clua_parcel_more {
    clua_reference *references;
    struct clua_shared_string **strings;  // long strings, which are not copied into the bytes
    struct clua_code **codes;
    const struct frozen_table **frozen;  // each retained
    uint32_t reference_count, string_count, code_count, frozen_count;
    struct clua_ledger *ledger;  // owned: counts the parcel; NULL for none
} clua_parcel_more;

/// 48 bytes. With the header that a host puts before it this fits a cache line, which the receiver fetches from another processor.
typedef struct clua_parcel {
    union {
        uint64_t few[CLUA_FEW_BYTES / 8];  // the bytes; Swift copies whole words in one piece
        uint8_t *bytes;                    // owned, if `has_block`
    };
    size_t byte_count;
    union {
        struct clua_code *code;  // owned, or NULL if there is no code
        clua_parcel_more *more;  // owned, if `has_more`; then it holds all codes
    };
    uint32_t value_count;  // the number of values that clua_decode pushes
    bool has_block, has_more;
    bool is_flat;      // one plain value or table of such, or a function without parameters, without globals, and with plain upvalues only
    bool is_disowned;  // it refers to its owner; see clua_parcel_disown
} clua_parcel;

static inline const uint8_t *clua_parcel_bytes(const clua_parcel *parcel) {
    return parcel->has_block ? parcel->bytes : (const uint8_t *)parcel->few;
}

static inline size_t clua_parcel_code_count(const clua_parcel *parcel) {
    return parcel->has_more ? parcel->more->code_count : parcel->code != NULL;
}

static inline struct clua_code *clua_parcel_code(const clua_parcel *parcel, size_t index) {
    return parcel->has_more ? parcel->more->codes[index] : parcel->code;
}

static inline size_t clua_parcel_reference_count(const clua_parcel *parcel) {
    return parcel->has_more ? parcel->more->reference_count : 0;
}

static inline clua_reference *clua_parcel_reference(const clua_parcel *parcel, size_t index) { return &parcel->more->references[index]; }

static inline size_t clua_parcel_string_count(const clua_parcel *parcel) { return parcel->has_more ? parcel->more->string_count : 0; }

static inline struct clua_shared_string *clua_parcel_string(const clua_parcel *parcel, size_t index) {
    return parcel->more->strings[index];
}

static inline size_t clua_parcel_frozen_count(const clua_parcel *parcel) { return parcel->has_more ? parcel->more->frozen_count : 0; }

static inline const struct frozen_table *clua_parcel_frozen(const clua_parcel *parcel, size_t index) { return parcel->more->frozen[index]; }

/// Whether the parcel refers to objects of the host, also through frozen values.
bool clua_parcel_has_objects(const clua_parcel *parcel);

/// Whether the parcel is stored in `few` alone and owns nothing.
static inline bool clua_parcel_is_few(const clua_parcel *parcel) { return !parcel->has_block && parcel->code == NULL; }

/// The size of the values in bytes, with long strings and frozen values, without functions.
size_t clua_parcel_size(const clua_parcel *parcel);

/// Counts the bytes of the parcel in a ledger until it is released. A string, code or frozen value of several such parcels counts once. The values of a
/// parcel that owns nothing are part of their holder. Does nothing if the ledger is NULL, or counts the parcel already. Returns false, and counts nothing, if
/// memory has run out.
bool clua_parcel_charge(clua_parcel *parcel, struct clua_ledger *ledger);

/// The bytes before a long string that have room for the header of a Lua string. See clua_wire_string_of_object.
enum { CLUA_STRING_ROOM = 32 };

/// How errors name the values: "argument 1", "result 1", … In a body the first value is the function itself. In an invocation all values
/// are arguments.
typedef enum clua_parcel_role { CLUA_BODY, CLUA_INVOCATION, CLUA_RESULTS, CLUA_STORED } clua_parcel_role;

/// Encodes the top `count` values, which stay on the stack. Returns LUA_OK; or an error status, with the message on top and `parcel` empty.
/// Does not raise.
int clua_encode(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);

/// The environment that decoded functions get if they use globals.
typedef enum clua_environment {
    CLUA_FRESH_ENVIRONMENT,   // a new global table that reads through to the state's: for operations
    CLUA_CURRENT_ENVIRONMENT  // the current global table; globals in the parcel shadow it
} clua_environment;

/// Pushes the values of `parcel`. Returns LUA_OK with `value_count` values pushed, or an error status with the message pushed. Does not
/// raise.
int clua_decode(lua_State *L, const clua_parcel *parcel, clua_environment environment);

/// For a parcel that `owner` holds and that is decoded only while `owner` is alive: drops the references to `owner`. The parcel
/// `is_disowned` if there were any.
void clua_parcel_disown(clua_parcel *parcel, const void *owner);

/// Releases what the parcel owns. Any thread. An empty parcel is fine.
void clua_parcel_release(clua_parcel *parcel);

#endif
