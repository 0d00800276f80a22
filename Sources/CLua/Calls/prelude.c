// Functions that prepare a state for operations.
#include <stdio.h>

#include "Calls/run_apart.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Transfer/parcel_raising.h"

static int run_prelude(lua_State *L) {
    const clua_parcel *body = lua_touserdata(L, 1);
    const clua_state *state = clua_state_of(L);
    if (state->separates_globals && !clua_has_waiting_body(state)) {
        // The prelude must find none of what the last body has left.
        clua_undo_changes(L);
        clua_restore_libraries(L);
    }
    clua_copy_globals(L);
    lua_settop(L, 2 + CLUA_DECODING_SLOTS);
    clua_decode_here(L, body, CLUA_CURRENT_ENVIRONMENT);
    lua_settop(L, 3 + CLUA_DECODING_SLOTS);
    lua_call(L, 0, 0);
    lua_settop(L, 2);
    clua_adopt_globals(L);
    clua_adopt_libraries(L);
    clua_state_of(L)->has_saved_random = false;
    return 0;
}

int clua_run_prelude(lua_State *L, const clua_parcel *body, clua_failure *failure) {
    clua_state_of(L)->is_in_prelude = true;
    int status = clua_run_apart(L, run_prelude, (void *)body, failure);
    clua_state_of(L)->is_in_prelude = false;
    // The next attempt finds what this one has left.
    if (status != LUA_OK) clua_adopt_libraries(L);
    return status;
}

void clua_function_label(lua_State *L, int index, char *label, size_t size) {
    lua_Debug function;
    lua_pushvalue(L, index);
    lua_getinfo(L, ">S", &function);
    snprintf(label, size, "<%s:%d>", function.short_src, function.linedefined);
}
