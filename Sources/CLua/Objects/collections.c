// Work at the end of a garbage collection. Nothing refers to the watcher, a userdata, so each collection finalizes it.
#include "Objects/collections_raising.h"

#include <lua5.4/lauxlib.h>

#include "Core/registry_raising.h"
#include "Objects/object_raising.h"
#include "Objects/slot_map_raising.h"
#include "state.h"

// Whether a watcher exists whose finalizer has not run. Lua removes it from the weak array before the finalizer, and then may be unable to
// call the finalizer, for example at the limit of nested calls.
static bool has_watcher(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_WATCHER);
    bool has = lua_rawgeti(L, -1, 1) == LUA_TUSERDATA;
    lua_pop(L, 2);
    return has;
}

static int make_watcher(lua_State *L) {
    clua_push_kept(L, CLUA_KEPT_WATCHER);
    lua_newuserdatauv(L, 0, 0);
    clua_push_kept(L, CLUA_KEPT_WATCHER_METATABLE);
    lua_setmetatable(L, -2);
    lua_rawseti(L, -2, 1);
    lua_pop(L, 1);
    return 0;
}

void clua_need_watcher(lua_State *L) {
    if (!has_watcher(L)) make_watcher(L);
}

static int collected(lua_State *L) {
    clua_state *state = clua_state_of(L);
    clua_release_freed_handles(state);
    clua_trim_slot_map(L);
    if (state->tells_host) state->tells_host = state->host->collected(L);
    lua_settop(L, 1);
    if (has_watcher(L)) return 0;
    // Each collection gets a new watcher, because minor collections skip an old object.
    lua_pushcfunction(L, make_watcher);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        lua_settop(L, 1);
        clua_push_kept(L, CLUA_KEPT_WATCHER_METATABLE);
        lua_setmetatable(L, 1);
    }
    return 0;
}

void clua_collections_open(lua_State *L) {
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, collected);
    lua_setfield(L, -2, "__gc");
    clua_keep(L, CLUA_KEPT_WATCHER_METATABLE);
    lua_createtable(L, 1, 0);
    clua_push_kept(L, CLUA_KEPT_WEAK_METATABLE);
    lua_setmetatable(L, -2);
    clua_keep(L, CLUA_KEPT_WATCHER);
}
