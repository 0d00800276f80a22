// Calling the functions that are in the handles of objects for what happens to them.
#include "callback_raising.h"
#include "environment_raising.h"
#include "object_raising.h"
#include "run.h"
#include "run_apart.h"

#include <string.h>

int clua_run_callback(lua_State *L, clua_callback callback, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    int handle = lua_gettop(L) + 1, status = LUA_OK;
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    // It stays where it is while this runs. Without one there is no function.
    bool exists = callback.is_pinned ? clua_push_unpinned_handle(L, callback.object, callback.place)
                                     : clua_push_existing_handle(L, callback.object);
    if (!exists) return LUA_OK;
    bool were_real = clua_enter_apart(L);
    int handler = clua_begin_protected(L);
    if (clua_push_completion(L, handle, callback.is_kept) == LUA_TFUNCTION) {
        if (callback.argument != NULL)
            status = clua_push_items(L, callback.argument, 1, failure);
        else
            lua_pushvalue(L, handle);
        if (status == LUA_OK) {
            status = lua_pcall(L, 1, 0, handler);
            // The usual case: there is nothing to be put back, and nothing to be said.
            if (status == LUA_OK && were_real && clua_are_globals_real(L) && !lua_toboolean(L, handler - 1)) {
                lua_settop(L, handle - 1);
                return LUA_OK;
            }
            status = clua_end_protected(L, handler, status, failure);
        }
    }
    lua_settop(L, were_real ? handle : handle + 1);
    clua_leave_apart(L, were_real, status, failure);
    lua_settop(L, handle - 1);
    return status;
}
