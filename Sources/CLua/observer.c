#include "observer.h"

#include <lua5.4/lauxlib.h>

#include "callback.h"
#include "host_raising.h"
#include "object_raising.h"
#include "observer_raising.h"
#include "run_apart.h"

// Pushes what the handle on top has for its observers, if that is a table. Never raises. Needs 1 free stack slot, leaves 1.
static bool push_observers(lua_State *L) { return lua_getiuservalue(L, -1, CLUA_SLOT_FUNCTIONS) == LUA_TTABLE; }

void clua_add_observer(lua_State *L, int index, int function) {
    int observation = lua_gettop(L);
    luaL_checkstack(L, 5, NULL);
    lua_pushvalue(L, index);
    if (!push_observers(L)) {
        // Stack: ..., handle, completion block or nil.
        lua_createtable(L, 1, 1);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, index, CLUA_SLOT_FUNCTIONS);
    }
    lua_pushvalue(L, observation);
    lua_pushvalue(L, function);
    lua_rawset(L, -3);
    lua_settop(L, observation);
}

// Decodes the value and assigns it to a field of the table on top.
static void set_decoded(lua_State *L, const char *name, const clua_parcel *value) {
    if (value == NULL) return;
    int table = lua_gettop(L);
    if (clua_decode(L, value, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
    lua_settop(L, table + 1);
    lua_setfield(L, table, name);
}

static int run_observer(lua_State *L) {
    const clua_change *change = lua_touserdata(L, 1);
    clua_push_handle(L, change->object.object, change->object.kind);
    if (!push_observers(L)) return 0;
    clua_push_handle(L, change->observation.object, change->observation.kind);
    if (lua_rawget(L, 3) != LUA_TFUNCTION) return 0;
    lua_pushvalue(L, 2);
    clua_push_items_here(L, change->fields, 1);
    set_decoded(L, "old", change->old_value);
    set_decoded(L, "new", change->new_value);
    lua_call(L, 2, 0);
    return 0;
}

int clua_run_observer(lua_State *L, const clua_change *change, clua_failure *failure) {
    return clua_run_apart(L, run_observer, (void *)change, failure);
}

int clua_observations(lua_State *L, const void *object, void **observations, int most) {
    int top = lua_gettop(L), count = 0;
    if (!lua_checkstack(L, 8)) return 0;
    if (clua_push_existing_handle(L, object) && push_observers(L)) {
        lua_pushnil(L);
        while (clua_next(L, top + 2)) {
            clua_handle *observation = clua_to_handle(L, -2);
            if (observation != NULL && count < most) observations[count] = observation->object;
            count += observation != NULL;
            lua_pop(L, 1);
        }
    }
    lua_settop(L, top);
    return count;
}

void clua_remove_observer(lua_State *L, const void *object, const void *observation) {
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 6)) return;
    // Where there is no handle, there is no function.
    if (clua_push_existing_handle(L, object) && push_observers(L)
        && clua_push_existing_handle(L, observation)) {
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) != LUA_TNIL) {
            lua_pop(L, 1);
            lua_pushnil(L);
            lua_rawset(L, -3);  // replaces a field that exists: cannot raise
        }
    }
    lua_settop(L, top);
}
