// A Lua state made for a host: its libraries, the host's classes, and the way from the state back to the host.
#ifndef CLUA_STATE_H
#define CLUA_STATE_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "callback.h"
#include "object.h"
#include "parcel.h"
#include "stop.h"

/// What scripts see of a host. The same for all of its states, and alive as long as they are.
typedef struct clua_host {
    const clua_class *classes;
    size_t class_count;
    const clua_member *functions;  // fields of the module
    size_t function_count;
    clua_function call;  // one of these functions
    clua_function exit;  // os.exit with the status `member`: when it answers with nothing, the process ends here as in Lua
    /// Called in the sending state after `parcel`, which refers to host objects, was encoded from values that are still on
    /// the stack. May encode more, must not raise.
    void (*sent)(lua_State *L, const clua_parcel *parcel);
    // Of the class whose handles may be latent; 0 where none is. See latent.h.
    int latent_kind;
    int latent_function;  // makes one, where its first argument is a function: its body
    const char *callback_property;  // is the function in CLUA_SLOT_FUNCTIONS
    int adding_kind;      // of the objects to which they are added, by this function; 0 where there are none
    int adding_function;
    /// Makes the operation of `handle`, a latent one at stack index 2, and adds it to `object`. False: it is not that simple, or was refused; then
    /// the function is called. Must not raise.
    bool (*add_latent)(lua_State *L, void *object, struct clua_handle *handle);
    // For classes of operations that scripts define; 0 and NULL where no class has the function `subclass`.
    int class_kind;                    // the kind of the objects that such classes stand for
    clua_function new_operation;       // makes one of the class at stack index 1; the member is 1 when that has a method `start`
    clua_function assign_class_field;  // refuses a wrong field: class, key, value
    /// Answers with a parcel that holds the class `object`, or with nil.
    void (*class_contents)(lua_State *L, void *object, clua_reply *reply);
    /// Called when a garbage collection has ended, once for each clua_watch_collections. Must not raise. Returns whether it wants to
    /// be called again.
    bool (*collected)(lua_State *L);
} clua_host;

/// Long strings of a state to which parcels refer: a hash table. See lent_string.h.
typedef struct clua_lent_strings {
    struct clua_lent_string **buckets;  // owned; NULL until something is lent
    size_t bucket_count, count;
} clua_lent_strings;

/// A closure that one body has run as and the next one may. See spare_raising.h.
typedef struct clua_spare {
    struct clua_code *code;  // owned; NULL: there is none
    bool is_running;
    uint64_t look_count;  // the state's, when it began to run
    // What its upvalues are: those of a parcel that needs no block of its own. No bytes: it is not known.
    uint8_t bytes[CLUA_FEW_BYTES];
    size_t byte_count;
} clua_spare;

enum { CLUA_SPARE_COUNT = 8 };

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
    clua_spare spares[CLUA_SPARE_COUNT];
    uint64_t look_count;  // how often the `debug` library was asked for what may have been a function that runs
    uint64_t reuse_count;  // how often a body has run as a closure that another one had run as; for tests
    clua_lent_strings lent;
    lua_State *path_names;  // see clua_paths_changed
    const void *paths[3];  // what clua_paths_changed saw last, compared by address
} clua_state;

/// Makes a state with Lua's standard libraries, the host's classes and functions in the module `opscript` (a global, and in
/// `package.loaded`), and transport. With `ignore_environment`, `LUA_PATH` and its kin have no effect. Returns NULL when
/// memory ran out. The state must be closed by clua_state_close.
lua_State *clua_state_new(void *object, const clua_host *host, bool ignore_environment);

/// From now on bodies see of the state's own globals only what a fresh state has, and what preludes and the host have added: what
/// modules do to the globals is seen by the bodies that require them. For the states of workers, before anything runs there. Never raises.
void clua_separate_globals(lua_State *L);

/// Closes the state: runs its finalizers, frees its memory.
void clua_state_close(lua_State *L);

/// The two halves of that. What the second releases, objects of the host, must not use Lua any more.
void clua_lua_close(lua_State *L);
void clua_state_free(clua_state *state);

/// The record of the state that `L`, any of its coroutines, belongs to.
static inline clua_state *clua_state_of(lua_State *L) {
    return *(clua_state **)lua_getextraspace(L);  // Lua copies this word into every coroutine
}

/// The state gets no more than so many bytes from now on. Never raises.
void clua_limit_state(lua_State *L, size_t bytes);

/// A collection waits until the state has three times what the one before has left, not twice, as long as that grows: who makes many things
/// that stay has fewer collections, which find nothing. Never raises.
void clua_collect_seldom(lua_State *L);

/// See `Runtime.Configuration.prefersSpeedToMemory`. From any thread.
void clua_prefer_speed_to_memory(void);

/// Shows warnings from now on. Never raises.
void clua_enable_warnings(lua_State *L);

/// Lua's release and copyright.
const char *clua_copyright(void);

#endif
