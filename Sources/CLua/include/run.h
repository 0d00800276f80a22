// Running Lua from the host. Every function here runs in protected mode with only C frames below it, and leaves the stack unchanged unless
// noted.
#ifndef CLUA_RUN_H
#define CLUA_RUN_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "host.h"
#include "parcel.h"

/// Why a call failed. The blocks come from malloc, the caller owns them, and clua_failure_release frees them.
typedef struct clua_failure {
    int stop;         // a clua_stop_reason, if the body was stopped
    int status;       // LUA_ERRRUN, LUA_ERRMEM, LUA_ERRSYNTAX, …
    int incomplete;   // a syntax error at the end of the input, which more input may cure
    char *message;    // the raised value as text
    size_t message_count;
    char *traceback;  // without the message; empty for syntax errors
    size_t traceback_count;
    clua_parcel value;  // the raised value; empty if it cannot be sent
} clua_failure;

void clua_failure_release(clua_failure *failure);

/// Compiles `bytes` and pushes the function. `name` is a chunk name in the manual's sense ("=stdin", "@file").
int clua_load_string(lua_State *L, const char *bytes, size_t count, const char *name, clua_failure *failure);

/// Compiles a file, or standard input if `path` is NULL, and pushes the function.
int clua_load_file(lua_State *L, const char *path, clua_failure *failure);

/// Calls the function below the top `argument_count` values, and pops all of them. Pushes `result_count` results (LUA_MULTRET: all), or
/// nothing on failure.
int clua_call(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// As clua_encode, but also calls the host's `sent` if the parcel refers to objects.
int clua_send(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);

/// As clua_call, for a script of the host. Tracebacks show it as called from C, as the `lua` command's do.
int clua_call_script(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// A host value in flat form: the `count` pairs of a table, key and value, follow it.
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

/// One body of an operation.
typedef struct clua_body {
    void *object;  // the operation
    int kind;
    int handle;  // the stack index of its handle; 0 if unknown
    int number;  // 1 and up if the handle has several bodies; 0 for a single one
    bool is_invocation;  // calls object:method(...) rather than main(operation, ...)
    bool omits_operation;  // calls f(...) with the host's arguments only
    const char *method;  // the method to run, for an operation of a script class; otherwise NULL
    const clua_item *arguments;  // the host's own arguments, which come last
    size_t argument_count;
} clua_body;

/// Runs a body, decoded from `parcel`, or taken from its handle in this state if `parcel` is NULL. Encodes the first `result_limit` results
/// (LUA_MULTRET: all) into `results`, which must be empty. Stops the body if the state grows by more than `memory_limit` bytes; 0 for no
/// limit.
int clua_run_body(lua_State *L, clua_body body, const clua_parcel *parcel, int result_limit, size_t memory_limit,
                  clua_parcel *results, clua_failure *failure);

/// Encodes the body in the handle.
int clua_encode_body(lua_State *L, clua_body body, clua_parcel *parcel, clua_failure *failure);

/// Fills `failure` as if the value at `index` had been raised. Returns LUA_ERRRUN.
int clua_raise_value(lua_State *L, int index, clua_failure *failure);

/// Whether the object at `index` has a method with the name at `index + 1`. The lookup may call metamethods, which may fail.
int clua_has_method(lua_State *L, int index, bool *has, clua_failure *failure);

/// Makes the value at `index` and those above it the body of the handle of `object`. Inserts the handle below them.
int clua_attach_body(lua_State *L, void *object, int kind, int index, clua_failure *failure);

/// Pops an error message into `failure`.
void clua_take_message(lua_State *L, int status, clua_failure *failure);

/// Prints the top `count` values with the script's own `print`, and pops them.
int clua_print(lua_State *L, int count, clua_failure *failure);

/// Pops a table of functions, which clua_call_console finds by name. Never raises.
void clua_keep_console(lua_State *L);

/// Calls a function of the kept table with the top `argument_count` values, and pops these. Pushes its results.
int clua_call_console(lua_State *L, const char *name, int argument_count, clua_failure *failure);

/// Pushes an array of records that say what would be sent with the function at `index`, and which parts cannot be sent.
int clua_captures(lua_State *L, int index, clua_failure *failure);

/// Calls the function in `body` against the state's real globals. Afterwards these globals count as a fresh state's.
int clua_run_prelude(lua_State *L, const clua_parcel *body, clua_failure *failure);

/// Writes "<pipeline.lua:12>", the name of the function at `index` in messages. Never raises. Needs 1 free stack slot.
void clua_function_label(lua_State *L, int index, char *label, size_t size);

/// Pins the handle of `object`, which keeps it and its contents alive in this state. Each call needs one clua_unpin. `handle` is the
/// handle's stack index, or 0, as in clua_body.
int clua_pin(lua_State *L, void *object, int kind, int handle, clua_failure *failure);

/// Makes this layer call the host's `collected` when the next garbage collection has ended.
int clua_watch_collections(lua_State *L, clua_failure *failure);

/// Encode `package.path`, `package.cpath` and the global `arg` into a parcel, and set them from it.
int clua_encode_paths(lua_State *L, clua_parcel *parcel, clua_failure *failure);
int clua_apply_paths(lua_State *L, const clua_parcel *parcel, clua_failure *failure);

/// Creates the global `arg`: `arguments[script]` is at index 0, earlier arguments are at negative indices.
int clua_set_arguments(lua_State *L, const char *const *arguments, int count, int script, clua_failure *failure);

/// Pushes the values at 1, 2, 3 … of the global `arg`.
int clua_push_arguments(lua_State *L, clua_failure *failure);

/// Calls `require(name)` and assigns the result to the global `global`.
int clua_require(lua_State *L, const char *name, const char *global, clua_failure *failure);

/// Whether `package.path`, `package.cpath` or the global `arg` have changed since the last call. Never raises.
bool clua_paths_changed(lua_State *L);

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

/// Calls one completion block after the other until `next` returns false or a block fails. Some may be left even if none has failed.
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

/// Pushes what a name such as `print` or `string.format` means: a global, or a field of one.
int clua_push_named(lua_State *L, const char *name, clua_failure *failure);

/// Pushes a string. Returns LUA_OK, or an error status and pushes nothing. Never raises. Needs 3 free stack slots, leaves 1.
int clua_push_bytes(lua_State *L, const char *bytes, size_t count);

/// Pushes the `count` values that start at `first`.
int clua_push_items(lua_State *L, const clua_item *first, size_t count, clua_failure *failure);

/// Pushes a list of the keys of the table at `index`, which may be frozen.
int clua_list_keys(lua_State *L, int index, clua_failure *failure);

/// Pushes a list of the keys and values of the table at `index`: a key, its value, the next key …
int clua_list_fields(lua_State *L, int index, clua_failure *failure);

/// Pushes an ordinary copy of the frozen table at `index`.
int clua_thaw(lua_State *L, int index, clua_failure *failure);

/// Replaces the key on top by the value that the frozen table at `index` has for it.
int clua_frozen_field(lua_State *L, int index, clua_failure *failure);

/// Fills `failure` with an error that did not come from Lua. Returns LUA_ERRRUN.
int clua_refuse(clua_failure *failure, const char *message);

/// Runs `function` in protected mode with `context`, a light userdata, as its only argument.
int clua_protect(lua_State *L, lua_CFunction function, void *context, int result_count, clua_failure *failure);

#endif
