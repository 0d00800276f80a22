// Running code outside the operation that may be running.
#ifndef CLUA_RUN_APART_H
#define CLUA_RUN_APART_H

#include "protect.h"

/// As clua_protect, but detached from the operation that may be running: its environment is not current meanwhile, and its frames appear in
/// no traceback.
int clua_run_apart(lua_State *L, lua_CFunction function, void *context, clua_failure *failure);

/// As clua_run_apart for a function that calls clua_begin_callback. A waiting body finds the libraries afterwards as it had left them.
int clua_run_callbacks_apart(lua_State *L, lua_CFunction function, void *context, clua_failure *failure);

/// Releases the objects of freed handles after a body or script, in case Lua could not run the watcher's finalizer. Never raises.
void clua_release_leftovers(lua_State *L);

#endif
