// Calling the functions that handles store for events of their objects.
#include "Calls/application_raising.h"
#include "Calls/callback_raising.h"
#include "Calls/run_apart.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Objects/object_raising.h"
#include "Objects/observer_raising.h"
#include "run.h"

static int run_callback(lua_State *L) {
    const clua_callback *callback = lua_touserdata(L, 1);
    // An object without a handle has no function. The handle stays on the stack during the call.
    if (!clua_push_existing_handle(L, callback->object)) return 0;
    if (clua_push_completion(L, 2, callback->is_kept) != LUA_TFUNCTION) return 0;
    if (callback->argument != NULL)
        clua_push_items_here(L, callback->argument, 1);
    else
        lua_pushvalue(L, 2);
    clua_begin_callback(L, 3);
    lua_call(L, 1, 0);
    clua_end_callback(L);
    return 0;
}

int clua_run_callback(lua_State *L, clua_callback callback, clua_failure *failure) {
    return clua_run_callbacks_apart(L, run_callback, &callback, failure);
}

typedef struct completions {
    clua_next_completion next;
    void *context;
} completions;

static int run_completions(lua_State *L) {
    const completions *completions = lua_touserdata(L, 1);
    clua_completion completion;
    while (clua_are_globals_real(L) && completions->next(completions->context, &completion)) {
        bool exists = completion.is_pinned ? clua_push_unpinned_handle(L, completion.object, completion.slot)
                                           : clua_push_existing_handle(L, completion.object);
        if (exists && clua_push_completion(L, 2, false) == LUA_TFUNCTION) {
            lua_pushvalue(L, 2);
            clua_begin_callback(L, 3);
            lua_call(L, 1, 0);
            clua_end_callback(L);
        }
        lua_settop(L, 1);
    }
    return 0;
}

int clua_run_completions(lua_State *L, clua_next_completion next, void *context, clua_failure *failure) {
    completions completions = {next, context};
    return clua_run_callbacks_apart(L, run_completions, &completions, failure);
}

// Decodes the value, and assigns it to a field of the table on top.
static void set_decoded(lua_State *L, const char *name, const clua_parcel *value) {
    if (value == NULL) return;
    int table = lua_gettop(L);
    if (clua_decode(L, value, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
    lua_settop(L, table + 1);
    lua_setfield(L, table, name);
}

static int run_observer(lua_State *L) {
    const clua_change *change = lua_touserdata(L, 1);
    clua_push_handle(L, change->object.object, change->object.kind);
    if (!clua_push_observers(L)) return 0;
    clua_push_handle(L, change->observation.object, change->observation.kind);
    if (lua_rawget(L, 3) != LUA_TFUNCTION) return 0;
    lua_pushvalue(L, 2);
    clua_push_items_here(L, change->fields, 1);
    set_decoded(L, "old", change->old_value);
    set_decoded(L, "new", change->new_value);
    clua_begin_callback(L, lua_gettop(L) - 2);
    lua_call(L, 2, 0);
    clua_end_callback(L);
    return 0;
}

int clua_run_observer(lua_State *L, const clua_change *change, clua_failure *failure) {
    return clua_run_callbacks_apart(L, run_observer, (void *)change, failure);
}
