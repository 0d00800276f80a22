// Host objects (operations, queues, errors) as Lua values.
//
// A handle is a full userdata that owns one reference to a host object. A state has at most one live handle per object, so handles compare
// equal and work as table keys within a state. The exception is an unreferenced handle that a finalizer of a script resurrects.
#ifndef CLUA_OBJECT_H
#define CLUA_OBJECT_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/// The contents of a handle.
typedef struct clua_handle {
    void *object;  // owned: one reference; NULL until the handle gets its object, and while it `is_deferred`
    void *class_object;  // the script class of an operation, kept alive by the operation; NULL for all others
    uint32_t slot;  // in the slot map of its state
    uint32_t kind : 4;  // index of the class, 1 to CLUA_MAX_KINDS; selects the metatable
    uint32_t has_results : 1;  // see CLUA_USER_VALUE_RESULTS
    uint32_t is_deferred : 1;  // the object is created on demand
    uint32_t has_callback : 1;  // of a deferred handle: CLUA_USER_VALUE_FUNCTIONS has a function
    uint32_t pin_count : 25;
} clua_handle;

/// How the host manages its objects. Set once, before the first state is created.
typedef struct clua_object_functions {
    void (*retain)(void *object);
    void (*release)(void *object);
    void *(*class_of)(void *object, int kind);  // the handle's `class_object`; NULL if there are no such classes
    /// Returns the slot of the object's handle in one state, if the object stores it. `state` is the object given to clua_state_new.
    /// CLUA_NO_SLOT means another state, or an object that stores no slot. NULL if no object stores one.
    uint32_t (*slot_of)(const void *object, const void *state);
    /// Stores the slot in the object. Returns false if the object does not store a slot for that state. NULL if no object stores one.
    bool (*set_slot)(void *object, const void *state, uint32_t slot);
    /// Creates the object of a deferred handle in a state for which `set_slot` succeeds. Returns an owned reference. NULL if no handle is
    /// deferred.
    void *(*make)(void *state, bool has_callback);
} clua_object_functions;

#define CLUA_NO_SLOT UINT32_MAX

void clua_set_object_functions(clua_object_functions functions);

/// From now on, no object is released. For a forked process that is about to exit.
void clua_release_no_objects(void);
void clua_object_retain(void *object);

/// The script class of an operation, which the operation keeps alive; NULL for all other objects. Never raises.
void *clua_object_class_of(void *object, int kind);
void clua_object_release(void *object);

/// As clua_object_release, but queues the objects that the released object releases in turn until the first release has finished. So a chain of
/// any length needs no deep stack.
void clua_object_release_in_turn(void *object);

/// Called when Lua frees `block`, of `block_size` bytes. Returns true if the block is a handle. The block then stays allocated until its
/// object is released. That release may run foreign code, so it must wait until Lua's collection is over.
bool clua_handle_is_freed(clua_handles *handles, void *block);

/// Releases the objects of a closed state's handles, and frees the slot map.
void clua_handles_close(clua_state *state);

/// The user values of a handle.
enum {
    CLUA_USER_VALUE_BODY = 1,       // a function, or a table: function, arguments, n; with several bodies, a table of these
    CLUA_USER_VALUE_RESULTS = 1,    // if the handle `has_results`: the operation's results as decoded in this state
    CLUA_USER_VALUE_FUNCTIONS = 2,  // the completion block or a timer's function; once the object is observed, a table:
                                    // 1 -> that function, observation -> function
    CLUA_USER_VALUE_COUNT = 2
};

/// The handle at `index`, or NULL for any other value. Creates the object of a deferred handle. Never raises.
clua_handle *clua_to_handle(lua_State *L, int index);

/// The handle at `index` if it is deferred, otherwise NULL. Never raises.
clua_handle *clua_to_deferred_handle(lua_State *L, int index);

/// Undoes one clua_pin. Never raises.
void clua_unpin(lua_State *L, void *object);

#endif
