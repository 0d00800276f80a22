#include "deferred.h"

#include "Calls/callback_raising.h"
#include "Objects/object_raising.h"
#include "Limits/ledger_raising.h"
#include "Transfer/parcel_flat.h"
#include "ledger.h"

// Creates an operation that is deferred if the first argument is a function.
static int make_deferred(lua_State *L) {
    if (lua_type(L, 1) != LUA_TFUNCTION) return clua_call_target(L);
    if (!clua_make_room(L, 0)) return clua_raise_refusal_to_keep(L);
    int last = lua_gettop(L);
    clua_push_deferred_handle(L, clua_state_of(L)->host->deferral.kind);
    clua_set_body(L, 1, last, 0);
    return 1;
}

// Adds an operation, which may be deferred.
static int add_deferred(lua_State *L) {
    const clua_deferral *deferral = &clua_state_of(L)->host->deferral;
    clua_handle *handle = clua_to_deferred_handle(L, 2);
    if (handle == NULL) return clua_call_target(L);
    const clua_handle *to = clua_to_handle(L, 1);
    if (to == NULL || (int)to->kind != deferral->queue_kind || !deferral->add(L, to->object, handle)) return clua_call_target(L);
    return clua_answer_sent(L, 2);
}

lua_CFunction clua_deferring_function(lua_State *L, const clua_class *class, int member) {
    const clua_deferral *deferral = &clua_state_of(L)->host->deferral;
    if (class->kind == 0) return NULL;
    if (class->kind == deferral->kind && member == deferral->make_function) return make_deferred;
    return class->kind == deferral->queue_kind && member == deferral->add_function ? add_deferred : NULL;
}

const char *clua_deferred_property(lua_State *L, const clua_class *class) {
    const clua_deferral *deferral = &clua_state_of(L)->host->deferral;
    return class->kind != 0 && class->kind == deferral->kind ? deferral->callback_property : NULL;
}

bool clua_set_deferred_callback(lua_State *L) {
    int type = lua_type(L, 3);
    if (type != LUA_TFUNCTION && type != LUA_TNIL) return false;
    clua_handle *handle = clua_to_deferred_handle(L, 1);
    if (handle == NULL) return false;
    lua_settop(L, 3);
    lua_setiuservalue(L, 1, CLUA_USER_VALUE_FUNCTIONS);
    handle->has_callback = type == LUA_TFUNCTION;
    return true;
}

bool clua_encode_deferred(lua_State *L, int index, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    if (clua_state_of(L)->parcel_limit > 0 || clua_state_of(L)->ledger != NULL) return false;
    bool is_flat = lua_getiuservalue(L, index, CLUA_USER_VALUE_BODY) == LUA_TFUNCTION && encode_flat(L, parcel);
    lua_pop(L, 1);
    return is_flat;
}

void clua_give_object(lua_State *L, int index, clua_handle *handle, void *object) {
    handle->object = object;
    handle->is_deferred = false;
    if (handle->has_callback) clua_pin_handle(L, index, handle);
}
