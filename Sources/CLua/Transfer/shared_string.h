// Long strings that parcels share with a state instead of copying them.
//
// Strings never change, and Lua does not move them, so a receiver may read them on another thread. Lua collects a shared string as any
// other. Its memory block then belongs to the parcels, and the last of them frees it. Nothing here raises.
//
// Sharing costs a hash table for each state, and a search there when Lua frees a large block. It saves two of four copies of a string that
// is sent and returned: T1 takes 0.49 of the time.
#ifndef CLUA_SHARED_STRING_H
#define CLUA_SHARED_STRING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state.h"

/// Strings of at least this length are shared, not copied.
#define CLUA_MIN_SHARED_STRING ((size_t)1 << 14)

typedef struct clua_shared_string {
    const char *bytes;
    size_t count;
    atomic_size_t owners;           // the parcels, and the state while Lua has the string
    atomic_size_t counted;          // the parcels that a ledger counts; it counts the string while there are any
    void *block;                    // Lua's memory; NULL while Lua has the string, and if an object has the bytes
    void *object;                   // the host's object that has the bytes, retained; NULL for none
    atomic_bool *has_room;          // whether a state may put a Lua string's header before the bytes; NULL if there is no room for one
    struct clua_shared_string *next;  // in the state's table
} clua_shared_string;

/// Shares a string of the state with one more parcel, which must release it. Returns NULL if memory runs out.
clua_shared_string *clua_share_string(clua_state *state, const char *bytes, size_t count);

/// A copy of these bytes that only the caller owns. Returns NULL if memory runs out. Any thread.
clua_shared_string *clua_shared_string_copy(const char *bytes, size_t count);

/// A string whose bytes belong to an object of the host, and must not change. Takes over a reference to the object. Returns NULL if memory runs
/// out, and releases the object. `has_room` is true while no state has the string in the room of CLUA_STRING_ROOM bytes before the bytes and of
/// one after them; NULL if there is no such room. Any thread.
clua_shared_string *clua_shared_string_of_object(const char *bytes, size_t count, atomic_bool *has_room, void *object);

/// Notes that a state has made a Lua string in the room around the bytes. Returns false if memory runs out.
bool clua_note_lent_string(clua_state *state, clua_shared_string *string);

/// Any thread. NULL is fine.
void clua_shared_string_release(clua_shared_string *string);

/// Called when Lua frees a block. If it is a shared string, gives the block to its parcels and returns true.
bool clua_hand_over_block(clua_state *state, void *block, size_t size);

/// Frees the table of a closed state. The parcels keep their strings.
void clua_shared_strings_free(clua_state *state);

#endif
