// The description that a host gives this layer of itself: its classes, its functions, and its callbacks. The folders below Calls reach the
// host through these functions alone.
#ifndef CLUA_HOST_H
#define CLUA_HOST_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

struct clua_handle;
struct clua_parcel;
struct clua_reply;

/// A function of the host. `member` is the number of a class member, or 0 for an unknown name.
typedef void (*clua_function)(lua_State *L, int member, struct clua_reply *reply);

/// Calls a function that the host has registered, with the values on the stack. Pushes its results and returns their number, or fills `reply`
/// and returns CLUA_REPLIED. `function` is the pointer that the host gave to clua_register or clua_register_class.
typedef int (*clua_registered_function)(lua_State *L, void *function, struct clua_reply *reply);
#define CLUA_REPLIED (-1)

/// A name that scripts use, and the host's number for it (1 and up).
typedef struct clua_member {
    const char *name;
    int member;
} clua_member;

#define CLUA_MAX_KINDS 10

/// A class of host objects as scripts see it.
typedef struct clua_class {
    const char *name;
    int kind;  // 1 to CLUA_MAX_KINDS; 0 for a class with a base
    const char *base;  // the class that it inherits from; its own functions take precedence; NULL for none
    const clua_member *functions;  // fields of the class table, and methods of its objects; "__call" and the like are metamethods
    size_t function_count;
    const clua_member *properties;
    size_t property_count;
    const clua_member *class_properties;
    size_t class_property_count;
    clua_function call;       // calls a function
    clua_function get;        // reads a property: object, key
    clua_function set;        // writes a property: object, key, value
    clua_function class_get;  // reads a property of the class table: class, key
    clua_function describe;   // tostring: object
} clua_class;

/// Which operations may be deferred, see deferred.h. All zero if none.
typedef struct clua_deferral {
    int kind;  // the kind of their handles
    int make_function;  // creates an operation, deferred if the first argument is a function, its body
    const char *callback_property;  // the property that holds the function in CLUA_USER_VALUE_FUNCTIONS
    int queue_kind;  // the kind of the objects to which `add_function` adds operations
    int add_function;
    /// Creates the operation of `handle`, a deferred one at stack index 2, and adds it to `queue`. Returns false if the operation needs more
    /// work or the queue refuses it; the caller then calls `add_function`. Must not raise.
    bool (*add)(lua_State *L, void *queue, struct clua_handle *handle);
} clua_deferral;

/// The registrations of an application while it runs, see registration.h. All zero if nothing can be registered.
typedef struct clua_registering {
    clua_registered_function call;
    int object_kind;  // the kind of the objects of registered classes
    /// The class of such an object, which is the `key` of clua_object_class; NULL if none is registered. Must not raise.
    const void *(*class_of)(lua_State *L, void *object);
} clua_registering;

/// The functions of the module that are written in Lua. All zero if there are none.
typedef struct clua_script {
    const char *const *sources;  // chunks that add the functions to the table that they get, see Calls/scripted.c
    size_t source_count;
    const clua_member *functions;  // fields of the module
    size_t function_count;
    int kind;
    const clua_member *methods;  // methods of the objects of this kind
    size_t method_count;
} clua_script;

/// How scripts read from streams of the host, see Calls/reading.c. All zero if there are none.
typedef struct clua_streaming {
    /// Takes bytes from a stream without waiting, see clua_read_format. Copies at most `room` bytes to `bytes`. Must not raise.
    int (*take)(void *stream, int format, size_t wanted, char *bytes, size_t room, size_t *taken);
    /// Waits until the stream of the object at stack index 1 may have more, or raises the error that `member`, an outcome of `take`, stands for.
    clua_function await;
} clua_streaming;

/// The part of a host that scripts see. All states of the host share it, and it outlives them.
typedef struct clua_host {
    const clua_class *classes;
    size_t class_count;
    const clua_member *functions;  // fields of the module
    size_t function_count;
    clua_function call;  // calls one of these functions
    clua_function exit;  // os.exit with the status `member`; if the host replies with nothing, the process exits here as in Lua
    /// Called in the sending state after encoding a `parcel` that refers to host objects, with the values still on the stack. May encode
    /// more. Must not raise.
    void (*sent)(lua_State *L, const struct clua_parcel *parcel);
    clua_deferral deferral;
    // For operation classes that scripts define. 0 and NULL if no class has the function `subclass`.
    int class_kind;                    // the kind of the objects behind such classes
    clua_function new_operation;       // creates an operation of the class at stack index 1; member 1: that class has a method `start`
    clua_function assign_class_field;  // rejects an invalid field: class, key, value
    /// Replies with a parcel that contains the class `object`, or with nil.
    void (*class_contents)(lua_State *L, void *object, struct clua_reply *reply);
    /// Called at the end of a garbage collection, once for each clua_watch_collections. Returns whether to call it again. Must not raise.
    bool (*collected)(lua_State *L);
    clua_registering registering;
    /// Takes the output of scripts to stdout (1) or stderr (2) in a state that `redirects_output`. Must not raise.
    void (*write)(lua_State *L, int stream, const char *bytes, size_t count);
    clua_script script;
    clua_streaming streaming;
} clua_host;

#endif
