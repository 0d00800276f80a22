// What a host tells this layer of itself: its classes, its functions, and what it wants to be asked. The folders below Calls reach the host
// by these functions, and by nothing else.
#ifndef CLUA_HOST_H
#define CLUA_HOST_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

struct clua_handle;
struct clua_parcel;
struct clua_reply;

/// A function of the host. `member` says which of a class's members was meant, 0 for a name that is none.
typedef void (*clua_function)(lua_State *L, int member, struct clua_reply *reply);

/// A name that scripts use, and the number by which the host knows it (1 and up).
typedef struct clua_member {
    const char *name;
    int member;
} clua_member;

#define CLUA_MAX_KINDS 8

/// A class of host objects as scripts see it.
typedef struct clua_class {
    const char *name;
    int kind;  // 1 to CLUA_MAX_KINDS; 0 for a class with a base
    const char *base;  // the class from which it inherits everything but its functions; NULL for none
    const clua_member *functions;  // fields of the class table, and methods of its objects
    size_t function_count;
    const clua_member *properties;
    size_t property_count;
    const clua_member *class_properties;
    size_t class_property_count;
    clua_function call;       // a function
    clua_function get;        // a property: object, key
    clua_function set;        // a property: object, key, value
    clua_function class_get;  // a property of the class table: class, key
    clua_function describe;   // tostring: object
} clua_class;

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
    void (*sent)(lua_State *L, const struct clua_parcel *parcel);
    // Of the class whose handles may be deferred; 0 where none is. See deferred.h.
    int deferred_kind;
    int deferred_function;  // makes one, where its first argument is a function: its body
    const char *callback_property;  // is the function in CLUA_USER_VALUE_FUNCTIONS
    int adding_kind;      // of the objects to which they are added, by this function; 0 where there are none
    int adding_function;
    /// Makes the operation of `handle`, a deferred one at stack index 2, and adds it to `object`. False: it is not that simple, or was refused; then
    /// the function is called. Must not raise.
    bool (*add_deferred)(lua_State *L, void *object, struct clua_handle *handle);
    // For classes of operations that scripts define; 0 and NULL where no class has the function `subclass`.
    int class_kind;                    // the kind of the objects that such classes stand for
    clua_function new_operation;       // makes one of the class at stack index 1; the member is 1 when that has a method `start`
    clua_function assign_class_field;  // refuses a wrong field: class, key, value
    /// Answers with a parcel that holds the class `object`, or with nil.
    void (*class_contents)(lua_State *L, void *object, struct clua_reply *reply);
    /// Called when a garbage collection has ended, once for each clua_watch_collections. Must not raise. Returns whether it wants to
    /// be called again.
    bool (*collected)(lua_State *L);
} clua_host;

#endif
