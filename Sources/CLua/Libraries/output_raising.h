// The output of scripts to stdout and stderr.
#ifndef CLUA_OUTPUT_RAISING_H
#define CLUA_OUTPUT_RAISING_H

#include <lua5.4/lua.h>
#include <stddef.h>

/// Replaces `print`, `io.write` and the `write` of files. May raise. Needs 4 free stack slots.
void clua_open_output(lua_State *L);

/// Writes to stderr or to the host, unless scripts have used up their output. Never raises.
void clua_write_warning(lua_State *L, const char *bytes, size_t count);

#endif
