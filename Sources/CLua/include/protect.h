// Running Lua in protected mode, with only C frames below it. Every function leaves the stack unchanged unless noted.
#ifndef CLUA_PROTECT_H
#define CLUA_PROTECT_H

#include <lua5.4/lua.h>
#include <stddef.h>

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

/// Calls the function below the top `argument_count` values, and pops all of them. Pushes `result_count` results (LUA_MULTRET: all), or
/// nothing on failure.
int clua_call(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// As clua_encode, but also calls the host's `sent` if the parcel refers to objects.
int clua_send(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);

/// As clua_call, for a script of the host. Tracebacks show it as called from C, as the `lua` command's do.
int clua_call_script(lua_State *L, int argument_count, int result_count, clua_failure *failure);

/// Fills `failure` as if the value at `index` had been raised. Returns LUA_ERRRUN.
int clua_raise_value(lua_State *L, int index, clua_failure *failure);

/// Pops an error message into `failure`.
void clua_take_message(lua_State *L, int status, clua_failure *failure);

/// Fills `failure` with an error that did not come from Lua. Returns LUA_ERRRUN.
int clua_refuse(clua_failure *failure, const char *message);

/// Runs `function` in protected mode with `context`, a light userdata, as its only argument.
int clua_protect(lua_State *L, lua_CFunction function, void *context, int result_count, clua_failure *failure);

/// Makes the result of a failed program, on top, show its `status` and `signal` only to code that looks at them. The object of the process is at `process`.
int clua_make_unread(lua_State *L, int process, clua_failure *failure);

/// Gives the table at `index` all its fields, if it is such a result.
int clua_show_status_at(lua_State *L, int index, clua_failure *failure);

#endif
