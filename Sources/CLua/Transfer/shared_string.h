// Long strings that parcels refer to instead of copying their bytes.
//
// Strings never change, and Lua does not move them: whoever decodes a parcel may read them on another thread. Lua collects a string that
// parcels refer to like any other, but its block of memory is then theirs, and goes with the last of them. Nothing here raises.
#ifndef CLUA_SHARED_STRING_H
#define CLUA_SHARED_STRING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "state.h"

typedef struct clua_shared_string {
    const char *bytes;
    size_t count;
    atomic_size_t owners;           // parcels, and the state while Lua has the string
    void *block;                    // Lua's memory; NULL while Lua has the string
    struct clua_shared_string *next;  // in the state's table
} clua_shared_string;

/// A string of the state for one more parcel, which has to release it. NULL when memory has run out.
clua_shared_string *clua_share_string(clua_state *state, const char *bytes, size_t count);

/// From any thread. NULL is fine.
void clua_shared_string_release(clua_shared_string *string);

/// Lua frees a block. Returns whether that is a string that parcels refer to: then it is theirs.
bool clua_hand_over_block(clua_state *state, void *block, size_t size);

/// When the state has been closed.
void clua_shared_strings_free(clua_state *state);

#endif
