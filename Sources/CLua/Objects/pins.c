// Pinning handles, which keeps them alive.
#include "object.h"

#include "Objects/object_raising.h"
#include "Objects/slot_map_raising.h"
#include "state.h"

// Does not raise, because the pin table has an entry preallocated for each slot.
void clua_pin_handle(lua_State *L, int index, clua_handle *handle) {
    if (handle->pin_count++ > 0) return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_page_of(&clua_state_of(L)->handles, handle->slot)->pins);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, clua_index_in_page(handle->slot));
    lua_pop(L, 1);
}

bool clua_push_unpinned_handle(lua_State *L, const void *object, uint32_t slot) {
    const clua_state *state = clua_state_of(L);
    if (slot == 0) slot = clua_find_slot(state, object);
    if (slot == 0) return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_page_of(&state->handles, slot)->pins);
    if (lua_rawgeti(L, -1, clua_index_in_page(slot)) != LUA_TUSERDATA) {
        lua_pop(L, 2);
        return clua_push_existing_handle(L, object);
    }
    clua_handle *handle = lua_touserdata(L, -1);
    if (--handle->pin_count == 0) {
        lua_pushnil(L);
        lua_rawseti(L, -3, clua_index_in_page(slot));
    }
    lua_replace(L, -2);
    return true;
}

void clua_unpin(lua_State *L, void *object) {
    if (lua_checkstack(L, 4) && clua_push_unpinned_handle(L, object, 0)) lua_pop(L, 1);
}
