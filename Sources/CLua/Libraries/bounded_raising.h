// Library functions whose loops count their steps, so that they can be stopped. May raise.
#ifndef CLUA_BOUNDED_RAISING_H
#define CLUA_BOUNDED_RAISING_H

#include <lua5.4/lua.h>

/// Replace functions of the libraries `string` and `table`. They behave exactly as Lua's, but count their steps. Need 4 free stack slots.
void clua_open_patterns(lua_State *L);
void clua_open_strings(lua_State *L);
void clua_open_tables(lua_State *L);

#endif
