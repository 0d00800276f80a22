// Running Lua from the host: everything here is protected, with only C frames below, and leaves the stack as it was unless
// it says otherwise.
#ifndef CLUA_RUN_H
#define CLUA_RUN_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "host.h"
#include "parcel.h"

/// Why something did not return. All of it is malloc'ed, owned by the caller, and given back by clua_failure_release.
typedef struct clua_failure {
    int stop;         // a clua_stop_reason: the body was stopped
    int status;       // LUA_ERRRUN, LUA_ERRMEM, LUA_ERRSYNTAX, …
    int incomplete;   // a syntax error at the end of the input: more of it might be right
    char *message;    // what `tostring` says of the raised value
    size_t message_count;
    char *traceback;  // without the message; empty for syntax errors
    size_t traceback_count;
    clua_parcel value;  // what was raised; empty when it cannot be sent
} clua_failure;

void clua_failure_release(clua_failure *failure);

/// Compiles `bytes` and pushes the function. `name` is a chunk name as the manual has it ("=stdin", "@file").
int clua_load_string(lua_State *L, const char *bytes, size_t count, const char *name, clua_failure *failure);

/// Compiles a file, or standard input when `path` is NULL, and pushes the function.
int clua_load_file(lua_State *L, const char *path, clua_failure *failure);

/// Calls the function below the top `argument_count` values; leaves `result_count` results (or all, LUA_MULTRET), or nothing
/// when it failed.
int clua_call(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// As clua_encode, and tells the host's `sent` when the parcel refers to objects.
int clua_send(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);

/// As clua_call for a script of the host: in a traceback it is called from C, as the `lua` command's are.
int clua_call_script(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// A value of the host, flat: a table's `count` pairs, key and value, follow it.
typedef struct clua_item {
    int type;  // LUA_TNIL, LUA_TBOOLEAN (integer), LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE or LUA_TUSERDATA
    bool is_integer;
    int kind;
    lua_Integer integer;
    lua_Number number;
    const char *bytes;
    size_t count;
    void *object;
} clua_item;

/// One of the bodies of an operation.
typedef struct clua_body {
    void *object;  // the operation
    int kind;
    int handle;  // the stack index of its handle; 0: it has to be looked for
    int number;  // which of several in the handle, 1 and up; 0: the only one
    bool is_invocation;  // not main(operation, ...) but object:method(...)
    const char *method;  // of an operation whose class a script has defined: what it runs is this method; else NULL
    const clua_item *arguments;  // of the host, which come last
    size_t argument_count;
} clua_body;

/// Runs a body, decoded from `parcel`, or, when that is NULL, as the handle in this state has it.
/// The first `result_limit` results (LUA_MULTRET: all) are encoded into `results`, which is empty before.
/// More than `memory_limit` bytes above what the state holds when it begins stop it; 0 for none.
int clua_run_body(lua_State *L, clua_body body, const clua_parcel *parcel, int result_limit, size_t memory_limit,
                  clua_parcel *results, clua_failure *failure);

/// Encodes a body that the handle holds.
int clua_encode_body(lua_State *L, clua_body body, clua_parcel *parcel, clua_failure *failure);

/// Fills `failure` as if the value at stack index `index` had been raised; returns LUA_ERRRUN.
int clua_raise_value(lua_State *L, int index, clua_failure *failure);

/// Whether the object at stack index `index` has a method with the name at `index + 1`; looking may raise what a metamethod does.
int clua_has_method(lua_State *L, int index, bool *has, clua_failure *failure);

/// Makes the value at stack index `index` and those above it the body of the handle of `object`.
int clua_attach_body(lua_State *L, void *object, int kind, int index, clua_failure *failure);

/// Takes an error message off the stack.
void clua_take_message(lua_State *L, int status, clua_failure *failure);

/// Prints the top `count` values with the script's own `print`, and pops them.
int clua_print(lua_State *L, int count, clua_failure *failure);

/// Pushes an array of records that say what would be sent with the function at `index`, and what of it cannot be.
int clua_captures(lua_State *L, int index, clua_failure *failure);

/// Calls the function in `body` against the state's real globals; they count as a fresh state's from then on.
int clua_run_prelude(lua_State *L, const clua_parcel *body, clua_failure *failure);

/// "<pipeline.lua:12>": how messages call the function at `index`. Never raises. Needs 1 free stack slot.
void clua_function_label(lua_State *L, int index, char *label, size_t size);

/// Keeps the handle of `object`, with what it holds, alive in this state until clua_unpin has been called as often. `handle` is its stack
/// index, or 0, as in clua_body.
int clua_pin(lua_State *L, void *object, int kind, int handle, clua_failure *failure);

/// Has the host's `collected` called when the next garbage collection has ended.
int clua_watch_collections(lua_State *L, clua_failure *failure);

/// Makes `function` the value of the global `name`, for this state one that a fresh state has.
int clua_register(lua_State *L, const char *name, clua_function function, int member, clua_failure *failure);

/// Encodes `package.path`, `package.cpath` and the global `arg`; sets them from such a parcel.
int clua_encode_paths(lua_State *L, clua_parcel *parcel, clua_failure *failure);
int clua_apply_paths(lua_State *L, const clua_parcel *parcel, clua_failure *failure);

/// Makes the global `arg`: `arguments[script]` is at index 0, what is before it below.
int clua_set_arguments(lua_State *L, const char *const *arguments, int count, int script, clua_failure *failure);

/// Pushes what is at 1, 2, 3 … in the global `arg` now.
int clua_push_arguments(lua_State *L, clua_failure *failure);

/// Calls `require(name)` and assigns the global `global`.
int clua_require(lua_State *L, const char *name, const char *global, clua_failure *failure);

/// Whether `package.path`, `package.cpath` or the global `arg` are other values than when this was asked last. Never raises.
bool clua_paths_changed(lua_State *L);

/// The function in the handle of an object that is there for what happens to it: what a timer calls, for one.
typedef struct clua_callback {
    void *object;
    bool is_kept;  // it stays in the handle
    const clua_item *argument;  // what it gets; NULL for the handle
} clua_callback;

int clua_run_callback(lua_State *L, clua_callback callback, clua_failure *failure);

/// The function in the handle of an object that has ended, which gets that, and is called once.
typedef struct clua_completion {
    void *object;
    bool is_pinned;  // the handle is pinned for its sake: clua_unpin
    uint32_t slot;  // of a pinned handle, or 0: that has to be looked for
} clua_completion;

/// Fills `completion`; false: there is no other one.
typedef bool (*clua_next_completion)(void *context, clua_completion *completion);

/// Calls one after the other, as `next` says, until there is no other one; the first that fails is the last. There may be some left also
/// where none has failed.
int clua_run_completions(lua_State *L, clua_next_completion next, void *context, clua_failure *failure);

/// A change that an observer is told.
typedef struct clua_change {
    clua_reference object;       // unowned, as the next
    clua_reference observation;
    const clua_item *fields;     // the table that the function gets, flat
    const clua_parcel *old_value;  // more fields of it, `old` and `new`; NULL for none
    const clua_parcel *new_value;
} clua_change;

/// Calls the function that the handle of the object keeps for the observation, with the handle and a table; does nothing where there
/// is none.
int clua_run_observer(lua_State *L, const clua_change *change, clua_failure *failure);

/// Whether the class of the operation at stack index `operation`, a script's, is the class at `class` or inherits from it.
int clua_is_kind_of(lua_State *L, int operation, int class, bool *is_kind, clua_failure *failure);

/// Calls the method `cancel` of the script's class of `object`; `has` is false when there is none.
int clua_call_cancel(lua_State *L, void *object, int kind, bool *has, clua_failure *failure);

/// Pushes `count` values, of which the first starts at `first`.
int clua_push_items(lua_State *L, const clua_item *first, size_t count, clua_failure *failure);

/// Fills `failure` with an error that Lua had no part in; returns LUA_ERRRUN.
int clua_refuse(clua_failure *failure, const char *message);

/// Runs `function` in protected mode with `context` as its only argument, a light userdata.
int clua_protect(lua_State *L, lua_CFunction function, void *context, int result_count, clua_failure *failure);

#endif
