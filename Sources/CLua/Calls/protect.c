// Runs C functions of Lua in protected mode, and describes their failures.
#include "protect.h"

#include <lua5.4/lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Calls/run_apart.h"
#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/traceback_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Limits/stop_raising.h"
#include "Objects/object_raising.h"
#include "Objects/unread_raising.h"
#include "state.h"
#include "values.h"

static int push_refusal(lua_State *L) {
    lua_pushfstring(L, "values of more than %I bytes cannot be sent (limits.valueBytes)", (LUAI_UACINT)clua_state_of(L)->parcel_limit);
    return 1;
}

int clua_send(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel) {
    int status = clua_encode(L, count, role, parcel);
    size_t limit = clua_state_of(L)->parcel_limit;
    if (status == LUA_OK && limit > 0 && clua_parcel_size(parcel) > limit) {
        clua_parcel_release(parcel);
        memset(parcel, 0, sizeof *parcel);
        lua_pushcfunction(L, push_refusal);
        status = lua_pcall(L, 0, 1, 0);
        return status == LUA_OK ? LUA_ERRRUN : status;
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
    clua_push_traceback(L, L, 1);
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

// Takes the description, or the bare message of an error for which no handler ran.
void clua_take_message(lua_State *L, int status, clua_failure *failure) {
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

int clua_refuse(clua_failure *failure, const char *message) {
    memset(failure, 0, sizeof *failure);
    failure->status = LUA_ERRRUN;
    failure->message_count = strlen(message);
    failure->message = clua_copy_bytes(message, failure->message_count);
    return LUA_ERRRUN;
}

// MARK: calling

// Pushes the description of the error in flight, or false. Code that runs meanwhile, such as a `__close` handler, must not lose it.
static void push_description_under_way(lua_State *L) {
    if (clua_state_of(L)->has_description)
        clua_push_kept(L, CLUA_KEPT_ERROR);
    else
        lua_pushboolean(L, false);
}

void clua_release_leftovers(lua_State *L) {
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
    if (status != LUA_OK) clua_take_message(L, status, failure);
    lua_pushvalue(L, kept);
    keep_description(L);
    lua_remove(L, kept);
    clua_release_leftovers(L);
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

// Pushes the values below a protected function: the description of the error in flight, and the message handler. Returns the handler's index.
static int begin_protected(lua_State *L) {
    push_description_under_way(L);
    lua_pushcfunction(L, describe_error);
    return lua_gettop(L);
}

// Removes the values that begin_protected has pushed, and leaves the results. Fills `failure` only on an error.
static int end_protected(lua_State *L, int handler, int status, clua_failure *failure) {
    int kept = handler - 1;
    if (status != LUA_OK) clua_take_message(L, status, failure);
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

// MARK: results of programs

int clua_make_unread(lua_State *L, int process, clua_failure *failure) {
    lua_pushcfunction(L, clua_make_unread_here);
    lua_insert(L, -2);
    lua_pushvalue(L, process);
    return clua_call(L, 2, 1, failure);
}

// Stack: the result.
static int show_status(lua_State *L) {
    clua_show_status(L, 1);
    return 0;
}

int clua_show_status_at(lua_State *L, int index, clua_failure *failure) {
    index = lua_absindex(L, index);
    lua_pushcfunction(L, show_status);
    lua_pushvalue(L, index);
    return clua_call(L, 1, 0, failure);
}

// MARK: apart from the running operation

static int push_callers(lua_State *L) {
    clua_push_traceback(L, L, 1);
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
    clua_state *state = clua_state_of(L);
    const void *waiting = state->waiting_globals;
    if (!were_real) {
        // clua_protect reserves slots for itself only.
        if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
        state->waiting_globals = state->current_globals;
        clua_push_current_globals(L);
        clua_push_real_globals(L);
        clua_set_current_globals(L);
    }
    int status = clua_protect(L, function, context, 0, failure);
    state->waiting_globals = waiting;
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

int clua_run_callbacks_apart(lua_State *L, lua_CFunction function, void *context, clua_failure *failure) {
    clua_state *state = clua_state_of(L);
    int before = state->set_aside_before;
    state->set_aside_before = state->set_aside_count;
    int status = clua_run_apart(L, function, context, failure);
    clua_end_callback(L);  // also after an error
    // Without memory for this, the libraries are restored before the next body.
    clua_failure ignored = {0};
    if (state->set_aside_count > state->set_aside_before && clua_protect(L, clua_put_libraries_back, NULL, 0, &ignored) != LUA_OK)
        clua_failure_release(&ignored);
    state->set_aside_before = before;
    return status;
}
