// Results of failed programs. Functions may raise, except where noted.
#ifndef CLUA_UNREAD_RAISING_H
#define CLUA_UNREAD_RAISING_H

#include <lua5.4/lua.h>

/// Gives the table at `index` all its fields, if it is a result whose status no code has read. Code that gets a copy of the result may read it.
void clua_show_status(lua_State *L, int index);

#endif
