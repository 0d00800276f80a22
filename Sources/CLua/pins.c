// Handles that are kept alive.
#include "run.h"

#include "object_raising.h"
#include "parcel.h"
#include "places_raising.h"
#include "state.h"

// It does not raise because there is a place for each handle.
void clua_pin_handle(lua_State *L, int index, clua_handle *handle) {
    if (handle->pin_count++ > 0) return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_chunk_of(&clua_state_of(L)->handles, handle->place)->pins);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, clua_place_in_chunk(handle->place));
    lua_pop(L, 1);
}

static int make_and_pin(lua_State *L) {
    const clua_reference *reference = lua_touserdata(L, 1);
    clua_push_handle(L, reference->object, reference->kind);
    clua_pin_handle(L, 2, lua_touserdata(L, 2));
    return 0;
}

int clua_pin(lua_State *L, void *object, int kind, int handle, clua_failure *failure) {
    if (lua_checkstack(L, 4) && clua_push_handle_at(L, handle, object)) {
        clua_pin_handle(L, lua_gettop(L), lua_touserdata(L, -1));
        lua_pop(L, 1);
        return LUA_OK;
    }
    clua_reference reference = {.object = object, .kind = kind};
    return clua_protect(L, make_and_pin, &reference, 0, failure);
}

bool clua_push_unpinned_handle(lua_State *L, const void *object, uint32_t place) {
    const clua_state *state = clua_state_of(L);
    if (place == 0) place = clua_find_place(state, object);
    if (place == 0) return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_chunk_of(&state->handles, place)->pins);
    if (lua_rawgeti(L, -1, clua_place_in_chunk(place)) != LUA_TUSERDATA) {
        lua_pop(L, 2);
        return clua_push_existing_handle(L, object);
    }
    clua_handle *handle = lua_touserdata(L, -1);
    if (--handle->pin_count == 0) {
        lua_pushnil(L);
        lua_rawseti(L, -3, clua_place_in_chunk(place));
    }
    lua_replace(L, -2);
    return true;
}

void clua_unpin(lua_State *L, void *object) {
    if (lua_checkstack(L, 4) && clua_push_unpinned_handle(L, object, 0)) lua_pop(L, 1);
}
