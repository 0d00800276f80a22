// Tracebacks. Functions may raise, except where noted.
#ifndef CLUA_TRACEBACK_RAISING_H
#define CLUA_TRACEBACK_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// The name of the chunk of the functions of ours that are written in Lua.
#define CLUA_SCRIPTED_CHUNK "=[opscript]"

/// Whether a function with this `source` is one of ours. Never raises.
bool clua_is_own_chunk(const char *source);

/// As luaL_traceback without a message, but leaves out our own functions, because their lines tell scripts nothing.
void clua_push_traceback(lua_State *L, lua_State *of, int level);

/// As luaL_where for the caller. If the caller is one of our own functions, the position is that of the script which has called it.
void clua_push_where(lua_State *L);

#endif
