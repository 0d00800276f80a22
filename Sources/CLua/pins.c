// Handles that are kept alive, and when a garbage collection has ended.
#include "run.h"

#include <lua5.4/lauxlib.h>

#include "object_raising.h"
#include "parcel.h"
#include "registry_raising.h"
#include "state.h"

static int pin(lua_State *L) {
    const clua_reference *reference = lua_touserdata(L, 1);
    clua_push_kept(L, CLUA_KEPT_PINS);
    clua_push_handle(L, reference->object, reference->kind);
    clua_handle *handle = lua_touserdata(L, -1);
    lua_rawsetp(L, -2, reference->object);
    handle->pin_count++;
    return 0;
}

int clua_pin(lua_State *L, void *object, int kind, clua_failure *failure) {
    clua_reference reference = {.object = object, .kind = kind};
    return clua_protect(L, pin, &reference, 0, failure);
}

void clua_unpin(lua_State *L, void *object) {
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 3)) return;
    if (clua_push_kept(L, CLUA_KEPT_PINS) == LUA_TTABLE && lua_rawgetp(L, -1, object) == LUA_TUSERDATA) {
        clua_handle *handle = lua_touserdata(L, -1);
        if (--handle->pin_count == 0) {
            lua_pushnil(L);
            lua_rawsetp(L, -3, object);  // replaces a field that exists: cannot raise
        }
    }
    lua_settop(L, top);
}

// MARK: collections

static int watch(lua_State *L);

// Finalizer of an object that nothing refers to.
static int collected(lua_State *L) {
    const clua_host *host = clua_state_of(L)->host;
    return host->collected != NULL && host->collected(L) ? watch(L) : 0;
}

static int watch(lua_State *L) {
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, collected);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return 0;
}

int clua_watch_collections(lua_State *L, clua_failure *failure) { return clua_protect(L, watch, NULL, 0, failure); }
