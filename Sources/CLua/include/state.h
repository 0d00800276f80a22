// The record that this layer has beside each Lua state. Every folder has its part of it here, as data: what the parts mean, and all that is
// done with them, is in the folders.
#ifndef CLUA_STATE_H
#define CLUA_STATE_H

#include <lua5.4/lua.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"

/// Limits: how what runs is stopped. Written by its own thread, but for `requested` and what `lock` guards.
typedef struct clua_stop {
    _Atomic(lua_State *) running;  // the coroutine that runs now
    atomic_int requested;          // a reason; the hook is set, or will be when something runs
    int raised;                    // the reason for which an error is under way
    char *message;                 // "pipeline.lua:12: …" where it was raised; malloc'ed
    char *traceback;               // malloc'ed
    size_t refused_size;           // the last allocation that the memory limit refused
    atomic_bool is_locked;         // for a few instructions, or a signal that is sent
    pthread_t thread;              // guarded
    const void *body;              // guarded: what is running, to whom a request must be addressed
    struct clua_suspended_body *suspended;  // guarded: what runs around it, innermost first
    bool is_given_up;              // guarded: the body has not noticed that it was asked to stop, and nobody waits for that
    bool is_attached;              // guarded: the thread is alive
    struct clua_state *next_on_thread;  // of the states of the same thread; written by that alone
    atomic_int interrupt;  // the signal of Ctrl-C, or the like, that has come, and whether it is no error yet; see interrupt.c
} clua_stop;

/// Objects: the handles of a state.
///
/// They have no finalizers, which would cost as much again: the state's allocator notices that Lua frees one. See
/// `clua_handle_is_freed`.
typedef struct clua_handles {
    struct clua_slot_page **pages;  // owned, by number, NULL where there is none; see Objects/slot_map_raising.h
    uint32_t page_limit;  // their numbers are less
    uint32_t page_count;
    uint32_t free_number;  // all that are less are in use
    struct clua_slot_page *nonfull;  // the first of a list of those that have room
    uint32_t used, most_used;  // how many handles have a place, and had at most since clua_trim_slot_map
    uint32_t *index;  // owned: a hash table from objects that do not know their handles' places to those
    uint32_t index_size, indexed;
    bool is_releasing;
    size_t block_size;  // of what Lua allocates for a handle
    void *freed;  // owned: the blocks of those that have gone, whose objects are still to be released; each begins with the next one
} clua_handles;

/// Transfer: long strings of a state to which parcels refer, a hash table. See Transfer/shared_string.h.
typedef struct clua_shared_strings {
    struct clua_shared_string **buckets;  // owned; NULL until something is lent
    size_t bucket_count, count;
} clua_shared_strings;

enum { CLUA_FEW_BYTES = 24 };  // so many bytes of a parcel need no block of their own

/// Calls: a closure that one body has run as and the next one may. See Calls/cached_closure_raising.h.
typedef struct clua_cached_closure {
    struct clua_code *code;  // owned; NULL: there is none
    bool is_running;
    uint64_t look_count;  // the state's, when it began to run
    // What its upvalues are: those of a parcel that needs no block of its own. No bytes: it is not known.
    uint8_t bytes[CLUA_FEW_BYTES];
    size_t byte_count;
} clua_cached_closure;

enum { CLUA_CACHED_CLOSURE_COUNT = 8 };

// Some 200 values travel by name: of the others one in a hundred is taken for one of them at first.
enum { CLUA_FILTER_BITS = 14 };

/// The record beside each state; every coroutine of the state reaches it.
typedef struct clua_state {
    void *object;  // the host's own, not owned
    const clua_host *host;
    size_t used_bytes;  // memory held by the state now
    size_t possible_bytes;  // the machine has no more: `limit_bytes` without a limit
    size_t state_limit;  // more than this it never gets: what needs more raises a memory error
    size_t limit_bytes;  // the same for what is running now, which may have a limit of its own
    clua_stop stop;
    int first_kept;  // where the registry has what this layer keeps
    const void *real_globals, *current_globals;  // its own global table, and the one in force, by address
    bool separates_globals;    // see clua_separate_globals
    bool has_full_environments;  // or had
    bool globals_have_metatable;  // a prelude has given them one
    bool is_in_prelude;
    int loads;                 // calls of `require` that load a module now, one inside the other
    bool has_description;      // of an error under way, in the registry
    bool modules_changed;      // whether `package.loaded` may have changed
    uint64_t module_filter[(1 << CLUA_FILTER_BITS) / 64];  // a bit for each value that travels by name, by its address; others may share it
    clua_handles handles;
    bool tells_host;  // that a collection has ended
    char *warning;  // owned: what has come of one that is not complete, or NULL
    size_t warning_count;
    struct clua_code_caches *codes;  // owned
    // The prototype whose code was looked up last, as long as Lua has not freed it, and that code; NULL: none.
    const void *last_prototype;
    struct clua_code *last_code;
    clua_cached_closure cached_closures[CLUA_CACHED_CLOSURE_COUNT];
    uint64_t look_count;  // how often the `debug` library was asked for what may have been a function that runs
    uint64_t reuse_count;  // how often a body has run as a closure that another one had run as; for tests
    clua_shared_strings shared_strings;
    lua_State *path_names;  // see clua_paths_changed
    const void *paths[3];  // what clua_paths_changed saw last, compared by address
    int (*call_host)(lua_State *L, clua_function function, int member);  // clua_call_host, for the folders below Calls
} clua_state;

/// The record of the state that `L`, any of its coroutines, belongs to.
static inline clua_state *clua_state_of(lua_State *L) {
    return *(clua_state **)lua_getextraspace(L);  // Lua copies this word into every coroutine
}

/// Somebody may have assigned upvalues of closures that are there: the next bodies are given theirs again. Never raises.
static inline void clua_cached_closures_forget_upvalues(clua_state *state) {
    for (int i = 0; i < CLUA_CACHED_CLOSURE_COUNT; i++) state->cached_closures[i].byte_count = 0;
}

/// The state gets no more than so many bytes from now on. Never raises.
void clua_limit_state(lua_State *L, size_t bytes);

/// A collection waits until the state has three times what the one before has left, not twice, as long as that grows: who makes many things
/// that stay has fewer collections, which find nothing. Never raises.
void clua_collect_seldom(lua_State *L);

/// See `Runtime.Configuration.prefersSpeedToMemory`. From any thread.
void clua_prefer_speed_to_memory(void);

#endif
