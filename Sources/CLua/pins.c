// Handles that are kept alive.
#include "run.h"

#include "object_raising.h"
#include "parcel.h"
#include "places_raising.h"
#include "state.h"

// Pins the handle on top, and pops it. Never raises: there is a place for each handle.
static void pin_handle(lua_State *L) {
    clua_handle *handle = lua_touserdata(L, -1);
    if (handle->pin_count++ == 0) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, clua_chunk_of(&clua_state_of(L)->handles, handle->place)->pins);
        lua_pushvalue(L, -2);
        lua_rawseti(L, -2, clua_place_in_chunk(handle->place));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int make_and_pin(lua_State *L) {
    const clua_reference *reference = lua_touserdata(L, 1);
    clua_push_handle(L, reference->object, reference->kind);
    pin_handle(L);
    return 0;
}

int clua_pin(lua_State *L, void *object, int kind, int handle, clua_failure *failure) {
    if (lua_checkstack(L, 4) && clua_push_handle_at(L, handle, object)) {
        pin_handle(L);
        return LUA_OK;
    }
    clua_reference reference = {.object = object, .kind = kind};
    return clua_protect(L, make_and_pin, &reference, 0, failure);
}

void clua_unpin_handle(lua_State *L) {
    clua_handle *handle = lua_touserdata(L, -1);
    if (handle->pin_count > 0 && --handle->pin_count == 0) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, clua_chunk_of(&clua_state_of(L)->handles, handle->place)->pins);
        lua_pushnil(L);
        lua_rawseti(L, -2, clua_place_in_chunk(handle->place));
        lua_pop(L, 1);
    }
}

void clua_unpin(lua_State *L, void *object) {
    if (!lua_checkstack(L, 4) || !clua_push_existing_handle(L, object)) return;
    clua_unpin_handle(L);
    lua_pop(L, 1);
}
