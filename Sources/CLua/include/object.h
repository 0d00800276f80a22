// Engine objects (operations, queues, errors) as Lua values.
//
// A handle is a full userdata that holds one reference to an object of the host. Each Lua state has at most one live handle
// for an object, so handles compare equal, and work as table keys, within a state.
#ifndef CLUA_OBJECT_H
#define CLUA_OBJECT_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stdint.h>

/// What a handle holds. `kind` selects the metatable.
typedef struct clua_handle {
    const void *tag;  // says that it is one
    void *object;  // owned: one reference; NULL while being made
    uint16_t kind;     // index of the class, 1 to CLUA_MAX_KINDS
    bool has_results;  // see CLUA_SLOT_RESULTS
    uint32_t pin_count;
    uint32_t place;  // of `object` among what the state holds
    uint32_t numbering;  // the state's, when that was the number of the place
    void *class_object;  // of an operation whose class a script has defined: that class, kept by the operation; else NULL
} clua_handle;

#define CLUA_MAX_KINDS 8

/// How the host counts references to its objects. Set once, before the first state is made.
typedef struct clua_object_functions {
    void (*retain)(void *object);
    void (*release)(void *object);
    void *(*class_of)(void *object, int kind);  // what the handle's `class_object` is; NULL where there are no such classes
} clua_object_functions;

void clua_set_object_functions(clua_object_functions functions);
void clua_object_retain(void *object);
void clua_object_release(void *object);

/// As clua_object_release, but what a released object releases in its turn waits until it has gone: a chain of any length needs no
/// deep stack.
void clua_object_release_in_turn(void *object);

/// What the handles of a state hold. Lua drops a finalizer that has no memory to run; what it was to release goes with the state.
typedef struct clua_held_objects {
    uintptr_t *places;  // owned: an object, owned too, or twice the index of the next free place; see object.c for their low bits
    uint32_t count, capacity;
    uint32_t used;  // how many of the first `count` have an object
    uint32_t numbering;  // changes when the places get other numbers
    uint32_t free;  // the index of the first free place; `count` when none is
    uint32_t *index;  // owned: a hash table of twice the capacity, from objects to their places, plus one
    uint32_t found;  // the place that was looked for last
} clua_held_objects;

/// Releases all of them. When the state has been closed.
void clua_held_objects_release(clua_held_objects *held);

/// The handle at `index`, or NULL when the value there is something else. Never raises.
clua_handle *clua_to_handle(lua_State *L, int index);

#endif
