// Internal to this folder.
#ifndef CLUA_ENVIRONMENT_RAISING_H
#define CLUA_ENVIRONMENT_RAISING_H

#include <lua5.4/lua.h>

/// Pushes the state's own global table, whatever operation is running.
void clua_push_real_globals(lua_State *L);

/// Says that `package.loaded` may have changed.
void clua_modules_changed(lua_State *L);

/// Puts the environment that the last clua_decode made, if it made one, in force: what `load`, `loadfile`, `dofile` use.
void clua_enter_environment(lua_State *L);

#endif
