// Writes the output of scripts: each call in one piece, to its file or to the host, and no more than the host allows.
#define _GNU_SOURCE
#include <errno.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "Libraries/libraries_raising.h"
#include "Libraries/output_raising.h"
#include "libraries.h"
#include "state.h"

void clua_limit_output(lua_State *L, clua_allowance *output) { clua_state_of(L)->output = output; }

static void spend(lua_State *L, size_t count) {
    clua_allowance *output = clua_state_of(L)->output;
    if (!clua_allowance_spend(output, count))
        luaL_error(L, "the limit of %I bytes of output is exceeded (limits.outputBytes)", (LUAI_UACINT)clua_allowance_limit(output));
}

// Why a line could not be written to stdout; 0 if none has failed.
static _Atomic(int) output_error;

// At the end of the process. A script may have closed stdout.
static void check_output(void) {
    // A thread that is still writing has the lock, perhaps for ever.
    if (fileno(stdout) < 0 || ftrylockfile(stdout) != 0) return;
    if (fflush(stdout) != 0) output_error = errno;
    bool has_failed = ferror(stdout) != 0;
    funlockfile(stdout);
    if (!has_failed) return;
    int error = output_error;
    dprintf(STDERR_FILENO, "opscript: cannot write standard output%s%s\n", error != 0 ? ": " : "", error != 0 ? strerror(error) : "");
    fflush(NULL);
    _exit(1);
}

void clua_check_output_at_exit(void) { atexit(check_output); }

// Gives bytes to the host, if the host takes the output to `file`. Otherwise returns false.
static bool redirect(lua_State *L, const FILE *file, const char *bytes, size_t count) {
    const clua_state *state = clua_state_of(L);
    int stream = file == stdout ? 1 : file == stderr ? 2 : 0;
    if (!state->redirects_output || stream == 0) return false;
    state->host->write(L, stream, bytes, count);
    return true;
}

void clua_write_warning(lua_State *L, const char *bytes, size_t count) {
    if (!clua_allowance_spend(clua_state_of(L)->output, count)) return;
    if (!redirect(L, stderr, bytes, count)) fwrite(bytes, 1, count, stderr);
}

// As Lua's `print`, but writes the line in one piece, so that lines of different states do not mix.
static int print(lua_State *L) {
    int count = lua_gettop(L);
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    for (int i = 1; i <= count; i++) {
        if (i > 1) luaL_addchar(&line, '\t');
        luaL_tolstring(L, i, NULL);
        luaL_addvalue(&line);
    }
    luaL_addchar(&line, '\n');
    luaL_pushresult(&line);
    size_t length;
    const char *bytes = lua_tolstring(L, -1, &length);
    spend(L, length);
    if (redirect(L, stdout, bytes, length)) return 0;
    bool is_written = fwrite(bytes, 1, length, stdout) == length;
    if (fflush(stdout) != 0 || !is_written) output_error = errno;
    return 0;
}

// Unlike a concatenation, `write` prints a float with an integral value without a point.
static void replace_float(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TNUMBER || lua_isinteger(L, index)) return;
    char digits[64];
    lua_number2str(digits, sizeof digits, lua_tonumber(L, index));
    lua_pushstring(L, digits);
    lua_replace(L, index);
}

// If the host takes the output to the file, gives it the text at `text` and pushes the file. The file is at index 1, or else is the default
// output.
static bool write_to_host(lua_State *L, bool has_file, int text) {
    if (!clua_state_of(L)->redirects_output) return false;
    if (has_file)
        lua_pushvalue(L, 1);
    else
        lua_getfield(L, LUA_REGISTRYINDEX, "_IO_output");
    const luaL_Stream *stream = luaL_testudata(L, -1, LUA_FILEHANDLE);
    size_t length;
    const char *bytes = lua_tolstring(L, text, &length);
    if (stream != NULL && stream->closef != NULL && redirect(L, stream->f, bytes, length)) return true;
    lua_pop(L, 1);
    return false;
}

// Upvalues: Lua's `io.write` or a file's `write`; the number of arguments before the text. Writes the text in one piece. As in Lua, the
// text before an invalid argument is written, too.
static int write_whole(lua_State *L) {
    int first = (int)lua_tointeger(L, lua_upvalueindex(2)) + 1;
    int last = lua_gettop(L);
    // An error message names the called function, so it is raised here, except the errors of the file itself.
    if (first > 1) luaL_checkudata(L, 1, LUA_FILEHANDLE);
    int wrong = first;
    while (wrong <= last && lua_isstring(L, wrong)) replace_float(L, wrong++);
    if (wrong <= last) {
        lua_settop(L, wrong);
        lua_insert(L, first);  // below the text
    }
    int count = wrong - first;
    if (count > 1) lua_concat(L, count);
    int text = lua_gettop(L);
    if (count > 0) {
        size_t length;
        lua_tolstring(L, text, &length);
        spend(L, length);
    }
    if (count == 0 || !write_to_host(L, first > 1, text)) {
        lua_pushvalue(L, lua_upvalueindex(1));
        if (first > 1) lua_pushvalue(L, 1);
        if (count > 0) lua_pushvalue(L, text);
        lua_call(L, lua_gettop(L) - text - 1, LUA_MULTRET);
    }
    if (wrong <= last) {
        lua_settop(L, wrong);
        lua_copy(L, first, wrong);
        luaL_checkstring(L, wrong);
    }
    return lua_gettop(L) - text;
}

// The table with `write` is on top. `before` is the number of arguments before the text.
static void replace_write(lua_State *L, int before) {
    lua_getfield(L, -1, "write");
    lua_pushinteger(L, before);
    lua_pushcclosure(L, write_whole, 2);
    lua_setfield(L, -2, "write");
}

void clua_open_output(lua_State *L) {
    lua_register(L, "print", print);
    lua_getglobal(L, LUA_IOLIBNAME);
    replace_write(L, 0);
    lua_pop(L, 1);
    luaL_getmetatable(L, LUA_FILEHANDLE);
    lua_getfield(L, -1, "__index");
    replace_write(L, 1);
    lua_pop(L, 2);
}
