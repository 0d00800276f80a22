// Running the bodies of operations.
#include "run.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Calls/application_raising.h"
#include "Calls/cached_closure_raising.h"
#include "Calls/callback_raising.h"
#include "Calls/run_apart.h"
#include "Libraries/environment_raising.h"
#include "Libraries/fs_temporary.h"
#include "Libraries/isolation_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "Transfer/identity_raising.h"
#include "Transfer/parcel_raising.h"
#include "object.h"
#include "parcel.h"
#include "protect.h"
#include "state.h"
#include "stop.h"

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

// Calls the body in its environment, and encodes its results. The operation is the first argument, except in an invocation, or if the body
// omits it.
static int run_body(lua_State *L) {
    body_run *run = lua_touserdata(L, 1);
    clua_begin_isolation(L);
    bool is_method = run->body.method != NULL;
    bool is_function = !run->body.is_invocation && !is_method && !run->body.omits_operation;
    // A function without parameters from a parcel would not see the handle, so none is created.
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
    clua_identities outer;
    uint32_t temporary_count = clua_state_of(L)->temporary_count;
    if (!lua_checkstack(L, 3)) return clua_refuse(failure, "stack overflow");
    if (parcel != NULL) clua_begin_identities(L, &outer);
    int status = clua_run_apart(L, run_body, &run, failure);
    if (parcel != NULL) clua_end_identities(L, &outer);
    if (run.cached != NULL) clua_leave_cached_closure(L, run.cached, status == LUA_OK);
    // Without a collection, the next body's limit would start above the garbage that this body has left.
    if (status != LUA_OK && failure->status == LUA_ERRMEM && (failure->stop == CLUA_NOT_STOPPED || failure->stop == CLUA_STOP_MEMORY))
        lua_gc(L, LUA_GCCOLLECT, 0);
    clua_release_leftovers(L);
    clua_discard_temporaries(clua_state_of(L), temporary_count);
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
        if (status != LUA_OK) clua_take_message(L, status, failure);
        lua_settop(L, top);
        return status;
    }
    lua_settop(L, top);
    body_run run = {.body = body, .results = parcel};
    return clua_protect(L, encode_body, &run, 0, failure);
}
