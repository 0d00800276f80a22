// Engine objects (operations, queues, errors) as Lua values.
//
// A handle is a full userdata that holds one reference to an object of the host. Each Lua state has at most one live handle
// for an object, so handles compare equal, and work as table keys, within a state; besides one that nothing referred to any more, and that
// a finalizer of a script came to again.
#ifndef CLUA_OBJECT_H
#define CLUA_OBJECT_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/// What a handle holds.
typedef struct clua_handle {
    void *object;  // owned: one reference; NULL while being made, and while it `is_deferred`
    void *class_object;  // of an operation whose class a script has defined: that class, kept by the operation; else NULL
    uint32_t slot;  // among those of its state
    uint32_t kind : 4;  // index of the class, 1 to CLUA_MAX_KINDS; selects the metatable
    uint32_t has_results : 1;  // see CLUA_USER_VALUE_RESULTS
    uint32_t is_deferred : 1;  // its object is made when something asks for it
    uint32_t has_callback : 1;  // of a deferred one: there is a function in CLUA_USER_VALUE_FUNCTIONS
    uint32_t pin_count : 25;
} clua_handle;

/// How the host counts references to its objects. Set once, before the first state is made.
typedef struct clua_object_functions {
    void (*retain)(void *object);
    void (*release)(void *object);
    void *(*class_of)(void *object, int kind);  // what the handle's `class_object` is; NULL where there are no such classes
    /// The object itself may know the place of its handle in one state: `state` is what clua_state_new was given. CLUA_NO_SLOT: that is
    /// another state, or the object knows none. NULL where no object does.
    uint32_t (*slot_of)(const void *object, const void *state);
    /// Has it remember that. False: it does not know its place there. NULL where no object does.
    bool (*set_slot)(void *object, const void *state, uint32_t slot);
    /// Makes the object of a deferred handle in one state, where `set_slot` is true of it; gives a reference. NULL where no handle is deferred.
    void *(*make)(void *state, bool has_callback);
} clua_object_functions;

#define CLUA_NO_SLOT UINT32_MAX

void clua_set_object_functions(clua_object_functions functions);
void clua_object_retain(void *object);
void clua_object_release(void *object);

/// As clua_object_release, but what a released object releases in its turn waits until it has gone: a chain of any length needs no
/// deep stack.
void clua_object_release_in_turn(void *object);

/// Lua frees `block`, of `block_size` bytes. Returns whether that was a handle; then the block is kept until its object is released:
/// Lua is at work at its collection, and the code of others may run when an object goes.
bool clua_handle_is_freed(clua_handles *handles, void *block);

/// Releases what the handles of a state hold, which has been closed.
void clua_handles_close(clua_state *state);

/// The handle's user values.
enum {
    CLUA_USER_VALUE_BODY = 1,        // a function, or a table: function, arguments, n; of an operation with several, a table of these
    CLUA_USER_VALUE_RESULTS = 1,     // if the handle `has_results`: what the operation ended with, as this state decoded it
    CLUA_USER_VALUE_FUNCTIONS = 2,   // the completion block, or what a timer calls; once the object is observed, a table: 1 -> that,
                               // observation -> function
    CLUA_USER_VALUE_COUNT = 2
};

/// The handle at `index`, or NULL when the value there is something else. Never raises.
clua_handle *clua_to_handle(lua_State *L, int index);

/// The same if it is deferred, and NULL for every other handle.
clua_handle *clua_to_deferred_handle(lua_State *L, int index);

/// Takes back one clua_pin. Never raises.
void clua_unpin(lua_State *L, void *object);

#endif
