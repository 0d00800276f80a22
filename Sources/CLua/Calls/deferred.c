#include "deferred.h"

#include "Objects/object_raising.h"
#include "Transfer/parcel_flat.h"

bool clua_encode_deferred(lua_State *L, int index, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    bool is_flat = lua_getiuservalue(L, index, CLUA_USER_VALUE_BODY) == LUA_TFUNCTION && encode_flat(L, parcel);
    lua_pop(L, 1);
    return is_flat;
}

void clua_give_object(lua_State *L, int index, clua_handle *handle, void *object) {
    handle->object = object;
    handle->is_deferred = false;
    if (handle->has_callback) clua_pin_handle(L, index, handle);
}
