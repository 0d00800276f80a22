#include "latent.h"

#include "callback.h"
#include "object_raising.h"
#include "parcel_flat.h"
#include "places_raising.h"
#include "state.h"

const clua_handle *clua_encode_latent(lua_State *L, int index, clua_parcel *parcel) {
    const clua_handle *handle = clua_to_latent_handle(L, index);
    if (handle == NULL || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
    *parcel = (clua_parcel){0};
    lua_getiuservalue(L, index, CLUA_SLOT_BODY);
    bool is_flat = encode_flat(L, parcel);
    lua_pop(L, 1);
    return is_flat ? handle : NULL;
}

void clua_give_object(lua_State *L, int index, void *object) {
    clua_handle *handle = lua_touserdata(L, index);
    clua_take_object(clua_state_of(L), handle, object);
    if (!handle->has_callback) return;
    lua_pushvalue(L, index);
    clua_pin_handle(L);
}
