// Running bodies and callbacks of operations. Every function here runs in protected mode with only C frames below it, and leaves the stack
// unchanged unless noted.
#ifndef CLUA_RUN_H
#define CLUA_RUN_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "application.h"
#include "host.h"
#include "parcel.h"
#include "protect.h"

/// One body of an operation.
typedef struct clua_body {
    void *object;  // the operation
    int kind;
    int handle;  // the stack index of its handle; 0 if unknown
    int number;  // 1 and up if the handle has several bodies; 0 for a single one
    bool is_invocation;  // calls object:method(...) rather than main(operation, ...)
    bool omits_operation;  // calls f(...) with the host's arguments only
    const char *method;  // the method to run, for an operation of a script class; otherwise NULL
    const clua_item *arguments;  // the host's own arguments, which follow all others
    size_t argument_count;
} clua_body;

/// Runs a body, decoded from `parcel`, or taken from its handle in this state if `parcel` is NULL. Encodes the first `result_limit` results
/// (LUA_MULTRET: all) into `results`, which must be empty. Stops the body if the state grows by more than `memory_limit` bytes; 0 for no
/// limit.
int clua_run_body(lua_State *L, clua_body body, const clua_parcel *parcel, int result_limit, size_t memory_limit,
                  clua_parcel *results, clua_failure *failure);

/// Encodes the body in the handle.
int clua_encode_body(lua_State *L, clua_body body, clua_parcel *parcel, clua_failure *failure);

/// Makes the value at `index` and those above it the body of the handle of `object`. Inserts the handle below them.
int clua_attach_body(lua_State *L, void *object, int kind, int index, clua_failure *failure);

/// Calls the function in `body` against the state's real globals. Afterwards these globals count as a fresh state's.
int clua_run_prelude(lua_State *L, const clua_parcel *body, clua_failure *failure);

/// Writes "<pipeline.lua:12>", the name of the function at `index` in messages. Never raises. Needs 1 free stack slot.
void clua_function_label(lua_State *L, int index, char *label, size_t size);

/// Pins the handle of `object`, which keeps it and its contents alive in this state. Each call needs one clua_unpin. `handle` is the
/// handle's stack index, or 0, as in clua_body.
int clua_pin(lua_State *L, void *object, int kind, int handle, clua_failure *failure);

/// Makes this layer call the host's `collected` when the next garbage collection has ended.
int clua_watch_collections(lua_State *L, clua_failure *failure);

/// The function that a handle stores for an event of its object, for example a timer's.
typedef struct clua_callback {
    void *object;
    bool is_kept;  // the function stays in the handle
    const clua_item *argument;  // the argument; NULL for the handle itself
} clua_callback;

int clua_run_callback(lua_State *L, clua_callback callback, clua_failure *failure);

/// The completion block of an object that has ended. It is called once, with the handle.
typedef struct clua_completion {
    void *object;
    bool is_pinned;  // the handle was pinned for this call, which unpins it
    uint32_t slot;  // of a pinned handle, or 0 if unknown
} clua_completion;

/// Fills `completion`. Returns false if there is none left.
typedef bool (*clua_next_completion)(void *context, clua_completion *completion);

/// Calls one completion block after the other until `next` returns false or a block fails. Blocks may be left even if none has failed.
int clua_run_completions(lua_State *L, clua_next_completion next, void *context, clua_failure *failure);

/// A change that an observer is told about.
typedef struct clua_change {
    clua_reference object;       // unowned, as is the next one
    clua_reference observation;
    const clua_item *fields;     // the table that the function gets, in flat form
    const clua_parcel *old_value;  // its fields `old` and `new`; NULL for none
    const clua_parcel *new_value;
} clua_change;

/// Calls the function that the object's handle stores for the observation, with the handle and a table. Does nothing if there is no such
/// function.
int clua_run_observer(lua_State *L, const clua_change *change, clua_failure *failure);

/// Whether the script class of the operation at `operation` is the class at `class` or inherits from it.
int clua_is_kind_of(lua_State *L, int operation, int class, bool *is_kind, clua_failure *failure);

/// Calls the method `cancel` of the script class of `object`. Sets `has` to false if there is no such method.
int clua_call_cancel(lua_State *L, void *object, int kind, bool *has, clua_failure *failure);

#endif
