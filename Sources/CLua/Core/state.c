#include "state.h"

void clua_collect_seldom(lua_State *L) {
    // The pause also applies in generational mode, as long as each collection leaves more in use than the one before.
    lua_gc(L, LUA_GCSETPAUSE, 300);
}

void clua_limit_parcels(lua_State *L, size_t bytes) { clua_state_of(L)->parcel_limit = bytes; }

void clua_limit_state(lua_State *L, size_t bytes) {
    clua_state *state = clua_state_of(L);
    state->state_limit = state->limit_bytes = bytes < state->possible_bytes ? bytes : state->possible_bytes;
}
