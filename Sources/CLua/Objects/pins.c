// Handles that are kept alive.
#include "object.h"

#include "Objects/object_raising.h"
#include "Objects/places_raising.h"
#include "state.h"

// It does not raise because there is a place for each handle.
void clua_pin_handle(lua_State *L, int index, clua_handle *handle) {
    if (handle->pin_count++ > 0) return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_chunk_of(&clua_state_of(L)->handles, handle->place)->pins);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, clua_place_in_chunk(handle->place));
    lua_pop(L, 1);
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
