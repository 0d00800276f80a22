// A state keeps pinned handles for the host, the bodies in them, and the request to report collections.
#include <string.h>

#include "Calls/callback_raising.h"
#include "Objects/collections_raising.h"
#include "Objects/object_raising.h"
#include "run.h"

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

typedef struct attachment {
    void *object;
    int kind;
    int count;
} attachment;

static int attach_body(lua_State *L) {
    attachment *attachment = lua_touserdata(L, 1);
    clua_push_handle(L, attachment->object, attachment->kind);
    clua_set_body(L, 2, lua_gettop(L) - 1, 0);
    return 1;  // the handle stays alive until the caller has its answer
}

int clua_attach_body(lua_State *L, void *object, int kind, int index, clua_failure *failure) {
    int count = lua_gettop(L) - index + 1;
    attachment attachment = {object, kind, count};
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, count + LUA_MINSTACK)) return clua_refuse(failure, "too many arguments");
    lua_pushcfunction(L, attach_body);
    lua_pushlightuserdata(L, &attachment);
    for (int i = 0; i < count; i++) lua_pushvalue(L, index + i);
    int status = clua_call(L, 1 + count, 1, failure);
    if (status == LUA_OK) lua_insert(L, index);  // below the arguments, so that the caller's frame keeps the handle alive
    return status;
}

static int watch_for_host(lua_State *L) {
    clua_need_watcher(L);
    clua_state_of(L)->tells_host = true;
    return 0;
}

int clua_watch_collections(lua_State *L, clua_failure *failure) { return clua_protect(L, watch_for_host, NULL, 0, failure); }
