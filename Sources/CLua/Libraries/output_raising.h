// Output that the host takes instead of the process's stdout and stderr.
#ifndef CLUA_OUTPUT_RAISING_H
#define CLUA_OUTPUT_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/// Gives bytes to the host, if it takes what is written to `file`. Otherwise returns false. Never raises.
bool clua_redirect(lua_State *L, FILE *file, const char *bytes, size_t count);

/// Pushes the file to which `io.write` writes. Needs 1 free stack slot.
void clua_push_output_file(lua_State *L);

/// The same for the string or number at `text` and the Lua file at `file`, both stack indices.
bool clua_redirect_text(lua_State *L, int file, int text);

#endif
