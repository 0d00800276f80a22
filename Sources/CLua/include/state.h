// The record beside each Lua state. It holds the data of every folder. The folders themselves define the meaning of their data, and the
// operations on it.
#ifndef CLUA_STATE_H
#define CLUA_STATE_H

#include <lua5.4/lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host.h"

#define CLUA_NO_INSTRUCTION_LIMIT INT64_MAX

/// Limits: a command that a script has started, until it has ended.
typedef struct clua_command {
    struct clua_command *next;
    const void *body;    // the body whose stop ends it; NULL if there is none
    pid_t process;       // the shell
    bool has_group;      // whether the shell leads a process group
    bool is_listed;
    int written;         // the descriptor by which the script writes to it; -1 if it does not
    bool cleans_up;      // whether it was started while its body was being stopped, so that the stop does not end it
    int64_t stopped_at;  // nanoseconds of the clock; 0 if it was not told to end
} clua_command;

/// Limits: stopping the running code. Only the state's thread writes these fields, except `requested`, `interrupt` and those that the lock guards.
typedef struct clua_stop {
    _Atomic(lua_State *) running;  // the running coroutine
    atomic_int requested;          // a reason; the hook is set, or will be at the next switch of coroutines
    atomic_int raised;             // the reason of the stop being raised
    char *message;                 // malloc'ed: "pipeline.lua:12: …", the position where it was raised
    char *traceback;               // malloc'ed
    ptrdiff_t steps_left;          // of loops in C, until the next look; see Limits/count_raising.h
    int64_t instructions_left;     // of the running body, or CLUA_NO_INSTRUCTION_LIMIT
    struct clua_allowance *shared_instructions;  // an allowance that the running body shares with others; NULL for no limit
    ptrdiff_t grace_left;          // steps of loops in C until the stop is raised again
    int next_step;                 // instructions until the stop is raised again, once the first grace is over
    bool has_yielded;              // instead of raising the stop, a coroutine has yielded
    size_t refused_size;           // size of the allocation that the memory limit refused, until one succeeds
    atomic_bool is_locked;         // the lock; held for a few instructions, or while a signal is sent
    _Atomic(pid_t) thread;         // the kernel's number of the thread that is attached; 0 if none is. Changes under the lock
    const void *body;              // guarded: the running body, which a request must name
    struct clua_suspended_body *suspended;  // guarded: the bodies suspended around it, innermost first
    clua_command *commands;        // guarded: list, not owned
    bool is_given_up;              // guarded: the body ignored a request, and no thread waits for it any more
    _Atomic(int64_t) quiet_until;  // nanoseconds of the clock: until then, a signal does not set a hook again that is set
    struct clua_state *next_on_thread;  // list of the states of one thread; only that thread writes it
    atomic_int interrupt;  // the last interrupt signal, and whether it is pending; see interrupt.c
} clua_stop;

/// Objects: the handles of a state.
///
/// Handles have no finalizers, which would double their cost. Instead the state's allocator notices when Lua frees one; see
/// `clua_handle_is_freed`.
typedef struct clua_handles {
    struct clua_slot_page **pages;  // owned; by number, NULL for an unused number; see Objects/slot_map_raising.h
    uint32_t page_limit;  // size of `pages`
    uint32_t page_count;
    uint32_t free_number;  // all lower numbers are in use
    struct clua_slot_page *nonfull;  // list of the pages with free slots
    uint32_t used, most_used;  // slots in use now, and at most since clua_trim_slot_map
    uint32_t *index;  // owned: a hash table from object to slot, for objects that do not store their slot
    uint32_t index_size, indexed;
    bool is_releasing;
    size_t block_size;  // size of the block that Lua allocates for a handle
    void *freed;  // owned: list of freed handles whose objects are still to be released; each block starts with a link
} clua_handles;

/// Transfer: the long strings of a state that parcels share, as a hash table. See Transfer/shared_string.h.
typedef struct clua_shared_strings {
    struct clua_shared_string **buckets;  // owned; NULL until a string is shared
    size_t bucket_count, count;
} clua_shared_strings;

enum { CLUA_FEW_BYTES = 24 };  // parcels up to this size need no separate block

/// Calls: a closure that ran one body and may run the next one. See Calls/cached_closure_raising.h.
typedef struct clua_cached_closure {
    struct clua_code *code;  // owned; NULL if the entry is empty
    bool is_running;
    uint64_t look_count;  // the state's `look_count` when the closure began to run
    // The bytes of the parcel that supplied the upvalues, if they need no block; no bytes if the upvalues are unknown.
    uint8_t bytes[CLUA_FEW_BYTES];
    size_t byte_count;
} clua_cached_closure;

enum { CLUA_CACHED_CLOSURE_COUNT = 8, CLUA_LAST_CLASSES = 16 };

// Some 200 values travel by name. About one in a hundred other values passes the filter and needs a lookup.
enum { CLUA_FILTER_BITS = 14 };

/// Calls: the host's functions for a state of another program. All NULL for other states. None may raise.
typedef struct clua_adoption {
    void *context;
    /// The state is about to be closed, and still works. Called once, in a coroutine of its own.
    void (*ending)(void *context, lua_State *L);
    /// Nothing of the state is left but the block of the main thread. The host frees the record.
    void (*ended)(void *context, struct clua_state *state);
    /// A request of clua_request_end is about to stop the script of the state. If the function returns, the script is stopped.
    void (*stopping)(void *context);
} clua_adoption;

/// The features that the scripts of a state cannot use, as bits.
typedef enum clua_restriction {
    CLUA_NO_ENVIRONMENT = 1,    // LUA_PATH and similar variables have no effect
    CLUA_NO_FILES = 2,          // io, opscript.fs, dofile, loadfile, os.remove, os.rename, os.tmpname
    CLUA_NO_SYSTEM = 4,         // io.popen, os.execute, os.exit, os.getenv, os.setlocale, warn
    CLUA_NO_DEBUG = 8,          // debug
    CLUA_NO_BYTECODE = 16,      // string.dump, and loading what it returns
    CLUA_NO_C_MODULES = 32,     // package.cpath, package.loadlib
    CLUA_NO_MODULE_FILES = 64,  // package.path
    CLUA_NO_FINALIZERS = 128,   // __gc in a metatable
    CLUA_NO_COLLECTOR = 256,    // options of collectgarbage that change how it works
    CLUA_NO_NETWORK = 512       // the module's `fetch`
} clua_restriction;

/// The error when a value of a worker process would run code in the host.
#define CLUA_METAMETHOD_REFUSED "a metamethod would run in the host, and not at the worker that has sent the value: send plain values instead"

/// The record beside each state. Every coroutine of the state reaches it.
typedef struct clua_state {
    void *object;  // the host's object, not owned
    const clua_host *host;
    size_t used_bytes;  // memory that the state holds now
    size_t possible_bytes;  // the machine's memory; `limit_bytes` has this value if there is no limit
    size_t state_limit;  // the limit of the state; beyond it Lua raises a memory error
    size_t limit_bytes;  // the limit of the code that runs now, which may be lower
    clua_stop stop;
    int first_kept;  // registry index of the first kept value
    const void *real_globals, *current_globals;  // addresses of the state's own global table and of the current one
    bool separates_globals;    // see clua_separate_globals
    bool has_full_environments;  // some environment is filled, or was
    bool globals_have_metatable;  // a prelude has given the globals a metatable
    bool is_in_prelude;
    bool libraries_are_recorded;  // CLUA_KEPT_LIBRARIES says what the libraries contain; see Libraries/isolation.c
    bool has_library_code;        // some code here may change the libraries
    bool libraries_may_differ;    // such code has run since they were checked
    bool checks_libraries_always;
    bool has_saved_random;       // the body that runs has seeded `math.random`, which had this state before
    uint64_t saved_random[4];
    const void *waiting_globals;  // address of the global table of the body that waits for what runs now; NULL if none
    int set_aside_count, set_aside_before;  // libraries that were set aside for callbacks: all, and those before the callbacks that run now
    int loads;                 // nested calls of `require` that are loading a module
    bool shares_batch;         // the modules that are being loaded may be those of all bodies; see Calls/require.c
    uint32_t load_count;       // modules that `require` has loaded
    uint32_t temporary_count;  // see Libraries/fs_temporary.h
    bool has_description;      // the registry describes an error in flight
    bool modules_changed;      // `package.loaded` may have changed
    uint64_t module_filter[(1 << CLUA_FILTER_BITS) / 64];  // a Bloom filter: one bit for the address of each value that travels by name
    clua_handles handles;
    bool redirects_output;  // the host takes the output of scripts to stdout and stderr
    bool relays_commands;   // the host also takes the output of commands of `os.execute`
    unsigned restrictions;  // clua_restriction bits
    size_t parcel_limit;    // the largest number of bytes that one parcel may hold; 0 for no limit
    struct clua_ledger *ledger;  // owned: the memory that the host keeps for the scripts; NULL if that is not counted
    unsigned vain_collections, collections_to_skip;  // see clua_make_room
    struct clua_allowance *output;  // the bytes that the state may still print; NULL for no limit
    struct clua_process *process;  // the worker process for which the state answers calls; see process.h
    void (*wrap_function)(lua_State *L, int index);  // in such a state: makes a function of a script run in the process; may raise
    bool tells_host;  // the host wants to know when a collection ends
    char *warning;  // owned: the pieces of an incomplete warning, or NULL
    size_t warning_count;
    struct clua_code_caches *codes;  // owned
    const void *running_factory;     // the function with which clua_code_instantiate makes a closure now; NULL if none
    // The last prototype that was looked up, and its code. NULL if there is none, or once Lua has freed the prototype.
    const void *last_prototype;
    struct clua_code *last_code;
    clua_cached_closure cached_closures[CLUA_CACHED_CLOSURE_COUNT];
    uint64_t look_count;  // calls of `debug` functions that may have seen a running function
    uint64_t reuse_count;  // bodies that ran in a cached closure; for tests
    bool has_identities, uses_identities;  // the running body has classes of its own; there are some; see Transfer/identity_raising.h
    clua_shared_strings shared_strings;
    struct clua_shared_string *last_classes[CLUA_LAST_CLASSES];  // owned: the bytes of classes that were sent last; see Transfer/parcel_classes.c
    uint32_t sent_classes;  // how many such bytes there were
    bool has_classes;     // some table has a number; see Transfer/identity_raising.h
    bool has_frozen;      // there are views of frozen values, or were
    bool shares_nothing;  // see clua_share_nothing
    size_t frozen_debt;   // bytes that were frozen since frozen bytes last caused a collection
    struct clua_frozen *dead_frozen;  // owned: list of frozen values to which nothing refers; see Transfer/frozen.h
    lua_State *settings;  // a coroutine; see Calls/settings.c
    lua_Integer setting_counts[3];  // of the fields of `arg`, `package.preload` and `package.searchers` that were sent last
    int (*call_host)(lua_State *L, clua_function function, int member);  // clua_call_host, for the folders below Calls
    void (*push_new_metatable)(lua_State *L, int kind);  // the same for clua_push_new_metatable
    void (*destroy_dead_frozen)(struct clua_state *state);  // the same for clua_destroy_dead_frozen
    clua_adoption adoption;
    const void *last_block;  // the block that Lua frees last, if the state was adopted
} clua_state;

/// The record of the state that `L`, any of its coroutines, belongs to.
static inline clua_state *clua_state_of(lua_State *L) {
    return *(clua_state **)lua_getextraspace(L);  // Lua copies this word into every coroutine
}

/// Called when a script may have assigned upvalues of cached closures. The next bodies set all upvalues again. Never raises.
static inline void clua_cached_closures_forget_upvalues(clua_state *state) {
    for (int i = 0; i < CLUA_CACHED_CLOSURE_COUNT; i++) state->cached_closures[i].byte_count = 0;
}

/// Called when code that may change the libraries is about to run in the state. Never raises.
static inline void clua_note_library_code(clua_state *state) { state->has_library_code = state->libraries_may_differ = true; }

/// Limits the memory of the state to `bytes`. Never raises.
void clua_limit_state(lua_State *L, size_t bytes);

/// Limits the size of one parcel of this state to about `bytes`. Sending more is an error. Never raises.
void clua_limit_parcels(lua_State *L, size_t bytes);

/// Lets the next collection wait until the heap is three times, not twice, as large as the last collection left it, while each collection leaves
/// more. Programs that build up lasting data save collections that would free nothing. Never raises.
void clua_collect_seldom(lua_State *L);

/// See `Runtime.Configuration.prefersSpeedToMemory`. Any thread.
void clua_prefer_speed_to_memory(void);

#endif
