#include "run.h"

#include <lua5.4/lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Calls/application_raising.h"
#include "Calls/callback_raising.h"
#include "Calls/run_apart.h"
#include "Calls/cached_closure_raising.h"
#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Limits/stop_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/parcel_raising.h"
#include "object.h"
#include "parcel.h"
#include "state.h"
#include "values.h"

int clua_send(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel) {
    int status = clua_encode(L, count, role, parcel);
    size_t limit = clua_state_of(L)->parcel_limit;
    if (status == LUA_OK && limit > 0 && clua_parcel_size(parcel) > limit) {
        clua_parcel_release(parcel);
        memset(parcel, 0, sizeof *parcel);
        lua_pushfstring(L, "values of more than %I bytes cannot be sent (limits.valueBytes)", (LUAI_UACINT)limit);
        return LUA_ERRRUN;
    }
    if (status == LUA_OK && clua_parcel_reference_count(parcel) > 0) clua_state_of(L)->host->sent(L, parcel);
    return status;
}

// MARK: failures

void clua_failure_release(clua_failure *failure) {
    free(failure->message);
    free(failure->traceback);
    clua_parcel_release(&failure->value);
    memset(failure, 0, sizeof *failure);
}

// Pushes the raised value as text, as the `lua` command shows it.
static void push_message(lua_State *L, int value) {
    if (lua_type(L, value) == LUA_TSTRING)
        lua_pushvalue(L, value);
    else if (lua_type(L, value) == LUA_TNUMBER || luaL_getmetafield(L, value, "__tostring") != LUA_TNIL)
        luaL_tolstring(L, value, NULL);
    else
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, value));
}

// Stores the value on top (nil or false for none) as the description of the error in flight, and pops it.
static void keep_description(lua_State *L) {
    clua_state_of(L)->has_description = lua_toboolean(L, -1);
    clua_keep(L, CLUA_KEPT_ERROR);
}

// Message handler: stores a table of value, message and traceback. It returns the value unchanged, because `__close` handlers
// and enclosing calls of `pcall` get it on the way.
static int describe_error(lua_State *L) {
    lua_settop(L, 1);
    push_message(L, 1);
    lua_insert(L, 2);
    lua_settop(L, 2);
    luaL_traceback(L, L, NULL, 1);
    lua_createtable(L, 3, 0);
    for (int i = 1; i <= 3; i++) {
        lua_pushvalue(L, i);
        lua_rawseti(L, 4, i);
    }
    keep_description(L);
    lua_settop(L, 1);
    return 1;
}

// Pushes and clears the description of the error on top. Returns false and pushes nothing if no handler ran for this error.
static bool push_description(lua_State *L) {
    bool is_described = clua_push_kept(L, CLUA_KEPT_ERROR) == LUA_TTABLE;
    if (is_described) {
        lua_rawgeti(L, -1, 1);
        is_described = lua_rawequal(L, -1, -3);
        lua_pop(L, 1);
        lua_pushboolean(L, false);
        keep_description(L);
    }
    if (!is_described) lua_pop(L, 1);
    return is_described;
}

// Pops the string on top and returns a copy of it. A nil there means that memory ran out.
static char *take_string(lua_State *L, size_t *count) {
    const char *bytes = CLUA_NO_MEMORY;
    char other[64];
    if (lua_type(L, -1) == LUA_TSTRING) {
        bytes = lua_tolstring(L, -1, count);
    } else {
        if (!lua_isnil(L, -1)) {
            snprintf(other, sizeof other, "(error object is a %s value)", luaL_typename(L, -1));
            bytes = other;
        }
        *count = strlen(bytes);
    }
    char *block = clua_copy_bytes(bytes, *count);
    if (block == NULL) *count = 0;
    lua_pop(L, 1);
    return block;
}

// A stop has recorded its own message and traceback.
static void take_stop(clua_stop *stop, clua_failure *failure) {
    failure->stop = stop->raised;
    // Lua itself may have raised the error, if there was no memory to describe it.
    const char *words = clua_stop_words(stop->raised);
    if (stop->message == NULL) stop->message = clua_copy_bytes(words, strlen(words));
    failure->message = stop->message;
    failure->message_count = stop->message != NULL ? strlen(stop->message) : 0;
    failure->traceback = stop->traceback;
    failure->traceback_count = stop->traceback != NULL ? strlen(stop->traceback) : 0;
    stop->message = stop->traceback = NULL;
}

// Pops the description, or the bare message of an error for which no handler ran, into `failure`.
static void take_failure(lua_State *L, int status, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    if (clua_is_stop(L, status)) {
        failure->status = status;
        take_stop(&clua_state_of(L)->stop, failure);
        lua_pop(L, 1);
        return;
    }
    bool is_described = push_description(L);
    if (is_described) lua_rawgeti(L, -1, 2);
    failure->message = take_string(L, &failure->message_count);
    bool is_memory = failure->message == NULL || strcmp(failure->message, CLUA_NO_MEMORY) == 0;
    failure->status = is_memory ? LUA_ERRMEM : status;
    if (!is_described) return;
    lua_rawgeti(L, -1, 3);
    failure->traceback = take_string(L, &failure->traceback_count);
    lua_pop(L, 1);
    if (clua_send(L, 1, CLUA_RESULTS, &failure->value) != LUA_OK) lua_pop(L, 1);
    lua_pop(L, 1);
}

// Removes this layer's own frames at the end of a body's traceback.
static void strip_own_frames(clua_failure *failure) {
    static const char own[] = "\n\t[C]: in ?";
    size_t length = sizeof own - 1;
    while (failure->traceback_count >= length
           && memcmp(failure->traceback + failure->traceback_count - length, own, length) == 0)
        failure->traceback_count -= length;
}

void clua_take_message(lua_State *L, int status, clua_failure *failure) { take_failure(L, status, failure); }

int clua_refuse(clua_failure *failure, const char *message) {
    memset(failure, 0, sizeof *failure);
    failure->status = LUA_ERRRUN;
    failure->message_count = strlen(message);
    failure->message = clua_copy_bytes(message, failure->message_count);
    return LUA_ERRRUN;
}

// Calls a function with the value at `index` and the `key_count` values on top, which it replaces by the result.
static int call_with(lua_State *L, lua_CFunction function, int index, int key_count, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    index = lua_absindex(L, index);
    if (!lua_checkstack(L, 4)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, function);
    lua_pushvalue(L, index);
    lua_rotate(L, -2 - key_count, -key_count);
    int status = lua_pcall(L, 1 + key_count, 1, 0);
    if (status != LUA_OK) take_failure(L, status, failure);
    return status;
}

int clua_list_keys(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_list_keys_here, index, 0, failure); }

int clua_list_fields(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_list_fields_here, index, 0, failure); }

int clua_thaw(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_thaw_here, index, 0, failure); }

int clua_frozen_field(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_frozen_field_here, index, 1, failure); }

// MARK: calling

// Pushes the description of the error in flight, or false. Code that runs meanwhile, such as a `__close` handler, must not lose it.
static void push_description_under_way(lua_State *L) {
    if (clua_state_of(L)->has_description)
        clua_push_kept(L, CLUA_KEPT_ERROR);
    else
        lua_pushboolean(L, false);
}

// Releases the objects of freed handles after a body or script, in case Lua could not run the watcher's finalizer.
static void release_what_is_left(lua_State *L) {
    if (clua_state_of(L)->handles.freed != NULL) clua_release_freed_handles(clua_state_of(L));
}

static int call(lua_State *L, lua_CFunction handler, int argument_count, int result_count, clua_failure *failure) {
    int kept = lua_gettop(L) - argument_count;
    push_description_under_way(L);
    lua_insert(L, kept);
    lua_pushcfunction(L, handler);
    lua_insert(L, kept + 1);
    int status = lua_pcall(L, argument_count, result_count, kept + 1);
    lua_remove(L, kept + 1);
    if (status != LUA_OK) take_failure(L, status, failure);
    lua_pushvalue(L, kept);
    keep_description(L);
    lua_remove(L, kept);
    release_what_is_left(L);
    return status;
}

int clua_call(lua_State *L, int argument_count, int result_count, clua_failure *failure) {
    return call(L, describe_error, argument_count, result_count, failure);
}

// Message handler of scripts. As in the `lua` command, an error object with a __tostring metamethod gets no traceback.
static int describe_script_error(lua_State *L) {
    bool has_words = lua_type(L, 1) != LUA_TSTRING && luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL;
    describe_error(L);
    if (has_words) {
        clua_push_kept(L, CLUA_KEPT_ERROR);
        lua_pushliteral(L, "");
        lua_rawseti(L, -2, 3);
        lua_pop(L, 1);
    }
    return 1;
}

// Stack: a function and its arguments.
static int call_values(lua_State *L) {
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

int clua_call_script(lua_State *L, int argument_count, int result_count, clua_failure *failure) {
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, call_values);
    lua_insert(L, -argument_count - 2);
    return call(L, describe_script_error, argument_count + 1, result_count, failure);
}

// Pushes what belongs below a protected function. Returns the stack index of the message handler.
static int begin_protected(lua_State *L) {
    push_description_under_way(L);
    lua_pushcfunction(L, describe_error);
    return lua_gettop(L);
}

// Removes what begin_protected pushed, and leaves the results. `failure` is filled only on an error.
static int end_protected(lua_State *L, int handler, int status, clua_failure *failure) {
    int kept = handler - 1;
    if (status != LUA_OK) take_failure(L, status, failure);
    if (status != LUA_OK || lua_toboolean(L, kept)) {
        lua_pushvalue(L, kept);
        keep_description(L);
    }
    if (lua_gettop(L) > handler) lua_rotate(L, kept, -2);
    lua_pop(L, 2);
    return status;
}

int clua_protect(lua_State *L, lua_CFunction function, void *context, int result_count, clua_failure *failure) {
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    int handler = begin_protected(L);
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, context);
    return end_protected(L, handler, lua_pcall(L, 1, result_count, handler), failure);
}

int clua_raise_value(lua_State *L, int index, clua_failure *failure) {
    index = lua_absindex(L, index);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, lua_error);
    lua_pushvalue(L, index);
    return clua_call(L, 1, 0, failure);
}

// Stack: the address of a boolean, the object, the name of the method.
static int has_method(lua_State *L) {
    bool *has = lua_touserdata(L, 1);
    *has = lua_gettable(L, 2) == LUA_TFUNCTION || luaL_getmetafield(L, -1, "__call") != LUA_TNIL;
    return 0;
}

int clua_has_method(lua_State *L, int index, bool *has, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, has_method);
    lua_pushlightuserdata(L, has);
    lua_pushvalue(L, index);
    lua_pushvalue(L, index + 1);
    return clua_call(L, 3, 0, failure);
}

// MARK: operations

static int push_callers(lua_State *L) {
    luaL_traceback(L, L, NULL, 1);
    return 1;
}

// Removes the frames of the waiting callers: the lines at the end that both tracebacks share.
static void strip_callers(lua_State *L, clua_failure *failure) {
    lua_pushcfunction(L, push_callers);
    if (failure->traceback_count > 0 && lua_pcall(L, 0, 1, 0) == LUA_OK) {
        size_t count, same = 0;
        const char *callers = lua_tolstring(L, -1, &count);
        for (size_t i = 1; i <= count && i <= failure->traceback_count; i++) {
            char last = callers[count - i];
            if (last != failure->traceback[failure->traceback_count - i]) break;
            if (last == '\n') same = i;
        }
        failure->traceback_count -= same;
    }
    lua_pop(L, 1);
}

int clua_run_apart(lua_State *L, lua_CFunction function, void *context, clua_failure *failure) {
    bool were_real = clua_are_globals_real(L);
    if (!were_real) {
        // clua_protect reserves slots for itself only.
        if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
        clua_push_current_globals(L);
        clua_push_real_globals(L);
        clua_set_current_globals(L);
    }
    int status = clua_protect(L, function, context, 0, failure);
    if (!were_real) {
        clua_set_current_globals(L);
    } else if (!clua_are_globals_real(L)) {
        clua_push_real_globals(L);
        clua_set_current_globals(L);
    }
    if (status != LUA_OK) {
        strip_callers(L, failure);
        strip_own_frames(failure);
    }
    return status;
}

typedef struct body_run {
    clua_body body;
    const clua_parcel *parcel;
    int result_limit;
    size_t memory_limit;
    clua_parcel *results;  // out
    clua_cached_closure *cached;  // the cached closure that the body runs in, or NULL
} body_run;

static void push_operation(lua_State *L, const clua_body *body) { clua_push_handle(L, body->object, body->kind); }

// Pushes the function and the arguments packed in the body of the handle on top. Returns the number of arguments.
static int push_body(lua_State *L, int number) {
    int type = lua_getiuservalue(L, -1, CLUA_USER_VALUE_BODY);
    if (number != 0 && type == LUA_TTABLE) {
        type = lua_rawgeti(L, -1, number);
        lua_remove(L, -2);
    }
    switch (type) {
    case LUA_TFUNCTION: return 0;
    case LUA_TTABLE: break;
    default: return luaL_error(L, "the operation has no main function");
    }
    int packed = lua_gettop(L);
    lua_getfield(L, packed, "n");
    int count = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    luaL_checkstack(L, count + 1, "too many arguments");
    for (int i = 1; i <= count; i++) lua_rawgeti(L, packed, i);
    lua_remove(L, packed);
    return count - 1;
}

// Stack: …, object, method name, arguments. Replaces the object by the method, and the name by the object.
static void find_method(lua_State *L, int object) {
    lua_pushvalue(L, object + 1);
    lua_gettable(L, object);
    if (lua_isnil(L, -1))
        luaL_error(L, "the %s has no method '%s' here", luaL_typename(L, object), lua_tostring(L, object + 1));
    lua_copy(L, object, object + 1);
    lua_replace(L, object);
}

// Stack: the run, the handle or nil. Pushes the function and its arguments. Returns the function's index, which follows the slots used for
// decoding, if any.
static int push_body_of(lua_State *L, body_run *run) {
    if (run->parcel != NULL) {
        if (clua_push_cached_closure(L, run->parcel, &run->cached)) return 3;
        int environment = lua_gettop(L) + 1;
        lua_settop(L, lua_gettop(L) + CLUA_DECODING_SLOTS);
        clua_decode_here(L, run->parcel, CLUA_FRESH_ENVIRONMENT);
        if (lua_istable(L, environment)) {
            lua_pushvalue(L, environment);
            clua_set_current_globals(L);
        }
        return environment + CLUA_DECODING_SLOTS;
    }
    if (run->body.method != NULL)
        clua_push_class_of(L, lua_gettop(L));
    else
        push_body(L, run->body.number);
    return 3;
}

// Calls the body in its environment, and encodes its results. The operation is the first argument, except in an invocation.
static int run_body(lua_State *L) {
    body_run *run = lua_touserdata(L, 1);
    clua_begin_isolation(L);
    bool is_method = run->body.method != NULL;
    bool is_function = !run->body.is_invocation && !is_method && !run->body.omits_operation;
    // A function from a parcel that takes no arguments would not see the handle, so none is created.
    bool needs_handle = run->parcel == NULL || is_method || (is_function && !clua_parcel_ignores_arguments(run->parcel));
    if (needs_handle)
        push_operation(L, &run->body);
    else
        lua_pushnil(L);
    int function = push_body_of(L, run);
    clua_push_items_here(L, run->body.arguments, run->body.argument_count);
    clua_state *state = clua_state_of(L);
    size_t limit = run->memory_limit != 0 ? state->used_bytes + run->memory_limit : state->possible_bytes;
    if (limit < state->limit_bytes) state->limit_bytes = limit;
    if (run->body.is_invocation) {
        find_method(L, function);
    } else if (is_method) {
        clua_push_class_field(L, function, run->body.method);
        if (lua_isnil(L, -1)) return 0;
        lua_replace(L, function);
        lua_pushvalue(L, 2);
    } else if (needs_handle) {
        lua_pushvalue(L, 2);
        lua_insert(L, function + 1);
    }
    lua_call(L, lua_gettop(L) - function, run->result_limit);
    state->limit_bytes = state->state_limit;
    int count = lua_gettop(L) - function + 1;
    if (count > 0 && clua_send(L, count, CLUA_RESULTS, run->results) != LUA_OK) return lua_error(L);
    return 0;
}

int clua_run_body(lua_State *L, clua_body body, const clua_parcel *parcel, int result_limit, size_t memory_limit,
                  clua_parcel *results, clua_failure *failure) {
    body_run run = {body, parcel, result_limit, memory_limit, results, NULL};
    int status = clua_run_apart(L, run_body, &run, failure);
    if (run.cached != NULL) clua_leave_cached_closure(L, run.cached, status == LUA_OK);
    // Otherwise the next body's limit would start above the garbage that this one left behind.
    if (status != LUA_OK && failure->status == LUA_ERRMEM && (failure->stop == CLUA_NOT_STOPPED || failure->stop == CLUA_STOP_MEMORY))
        lua_gc(L, LUA_GCCOLLECT, 0);
    release_what_is_left(L);
    return status;
}

static int encode_body(lua_State *L) {
    body_run *run = lua_touserdata(L, 1);
    push_operation(L, &run->body);
    if (run->body.method != NULL) {
        clua_push_class_of(L, 2);
        return clua_send(L, 1, CLUA_STORED, run->results) == LUA_OK ? 0 : lua_error(L);
    }
    int count = push_body(L, run->body.number) + 1;
    clua_parcel_role role = run->body.is_invocation ? CLUA_INVOCATION : CLUA_BODY;
    if (clua_send(L, count, role, run->results) != LUA_OK) return lua_error(L);
    return 0;
}

int clua_encode_body(lua_State *L, clua_body body, clua_parcel *parcel, clua_failure *failure) {
    memset(parcel, 0, sizeof *parcel);
    int top = lua_gettop(L);
    // A lone function can be encoded directly: clua_encode runs in protected mode itself.
    if (body.method == NULL && lua_checkstack(L, LUA_MINSTACK) && clua_push_handle_at(L, body.handle, body.object)
        && lua_getiuservalue(L, -1, CLUA_USER_VALUE_BODY) == LUA_TFUNCTION) {
        memset(failure, 0, sizeof *failure);
        int status = clua_send(L, 1, CLUA_BODY, parcel);
        if (status != LUA_OK) take_failure(L, status, failure);
        lua_settop(L, top);
        return status;
    }
    lua_settop(L, top);
    body_run run = {.body = body, .results = parcel};
    return clua_protect(L, encode_body, &run, 0, failure);
}
