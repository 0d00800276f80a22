// Parcels: Lua values on their way from one state to another.
//
// A parcel is immutable bytes plus counted references to host objects and to compiled code. It is encoded in the sending
// state and decoded, any number of times, in receiving states; no lock is held for either. Both run in protected mode with
// only C frames below them, so a host may call them directly.
#ifndef CLUA_PARCEL_H
#define CLUA_PARCEL_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state.h"

struct clua_code;
struct clua_shared_string;

typedef struct clua_reference {
    void *object;  // owned, unless `is_unowned`
    int kind;
    bool is_unowned;
} clua_reference;

/// What few parcels have. All of it is owned.
typedef struct clua_parcel_more {
    clua_reference *references;
    struct clua_shared_string **strings;  // long ones, which are not among the bytes
    struct clua_code **codes;
    uint32_t reference_count, string_count, code_count;
} clua_parcel_more;

/// 48 bytes, which with what a host puts in front of them is a line of memory: who receives a parcel takes that line from another processor.
typedef struct clua_parcel {
    union {
        uint64_t few[CLUA_FEW_BYTES / 8];  // bytes; words are what Swift copies in one piece
        uint8_t *bytes;                    // owned, where it `has_block`
    };
    size_t byte_count;
    union {
        struct clua_code *code;  // owned, or NULL: there is none
        clua_parcel_more *more;  // owned, where it `has_more`: all codes are there, too
    };
    uint32_t value_count;  // how many values clua_decode pushes
    bool has_block, has_more;
    bool is_flat;      // one plain value; or a function without parameters that sees no globals, and nothing but plain values
    bool is_disowned;  // it refers to its owner: see clua_parcel_disown
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

static inline struct clua_shared_string *clua_parcel_string(const clua_parcel *parcel, size_t index) { return parcel->more->strings[index]; }

/// Whether the parcel owns nothing: all that it is lies in `few`.
static inline bool clua_parcel_is_few(const clua_parcel *parcel) { return !parcel->has_block && parcel->code == NULL; }

/// How the values are named in an error: "argument 1", "result 1", … In a body the first value is the function itself; in an invocation
/// all values are arguments.
typedef enum clua_parcel_role { CLUA_BODY, CLUA_INVOCATION, CLUA_RESULTS, CLUA_STORED } clua_parcel_role;

/// Encodes the top `count` values of the stack, which stay there. Returns LUA_OK; otherwise the status, with the error's
/// message on top of the stack and `parcel` empty.
int clua_encode(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);

/// Pushes the values of `parcel`; functions that use globals see `environment`:
typedef enum clua_environment {
    CLUA_FRESH_ENVIRONMENT,   // a new global table that reads through to the state's: what an operation runs with
    CLUA_CURRENT_ENVIRONMENT  // the global table now in force; globals that came along shadow it
} clua_environment;

/// Returns LUA_OK with `value_count` values pushed, or the status with the error's message pushed.
int clua_decode(lua_State *L, const clua_parcel *parcel, clua_environment environment);

/// For a parcel that `owner` holds, and that is decoded only while `owner` is alive: lets go of the references to it. If there were any it
/// `is_disowned` from then on.
void clua_parcel_disown(clua_parcel *parcel, const void *owner);

/// Gives back what the parcel owns. Safe from any thread; an empty parcel is fine.
void clua_parcel_release(clua_parcel *parcel);

#endif
