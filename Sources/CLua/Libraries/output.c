#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdio.h>

#include "Libraries/output_raising.h"
#include "state.h"

// The stream of `file` if the host takes it, or 0.
static int redirected_stream(lua_State *L, const FILE *file) {
    if (!clua_state_of(L)->redirects_output) return 0;
    return file == stdout ? 1 : file == stderr ? 2 : 0;
}

bool clua_redirect(lua_State *L, FILE *file, const char *bytes, size_t count) {
    int stream = redirected_stream(L, file);
    if (stream == 0) return false;
    clua_state_of(L)->host->write(L, stream, bytes, count);
    return true;
}

void clua_push_output_file(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, "_IO_output"); }

bool clua_redirect_text(lua_State *L, int file, int text) {
    const luaL_Stream *stream = luaL_testudata(L, file, LUA_FILEHANDLE);
    if (stream == NULL || stream->closef == NULL) return false;
    size_t count;
    const char *bytes = lua_tolstring(L, text, &count);
    return clua_redirect(L, stream->f, bytes, count);
}
