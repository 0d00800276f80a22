// Results of failed programs. Functions may raise, except where noted.
#ifndef CLUA_UNREAD_RAISING_H
#define CLUA_UNREAD_RAISING_H

#include <lua5.4/lua.h>

/// A function of Lua. Makes the result of a failed program, its first argument, show `status` and `signal` only to code that looks at them, and returns
/// it. The second argument is the object of the process. When code looks, the result calls the object's method `wait` with nil, nil and true.
int clua_make_unread_here(lua_State *L);

/// Gives the table at `index` all its fields, if it is a result whose status no code has read. Code that gets a copy of the result may read it.
void clua_show_status(lua_State *L, int index);

#endif
