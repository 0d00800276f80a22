#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdio.h>

#include "Core/tables_raising.h"
#include "Libraries/commands_raising.h"
#include "Libraries/libraries_raising.h"
#include "state.h"

// Lua's own `io.popen` makes the C library flush all files of the process, so that the command sees the bytes that the script has written. The
// flush waits for every file that another thread is using, and meanwhile no thread can open a file. So one body that reads from a pipe could
// stop all others. Only the state's own files matter, and no other thread uses them. Therefore a state records the files that it opens.

// Upvalues: a function of the `io` library that may open a file; the weak set of open files.
static int open_file(lua_State *L) {
    int count = lua_tocfunction(L, lua_upvalueindex(1))(L);
    if (count > 0 && luaL_testudata(L, -count, LUA_FILEHANDLE) != NULL) {
        lua_pushvalue(L, -count);
        lua_pushboolean(L, 1);
        lua_rawset(L, lua_upvalueindex(2));
    }
    return count;
}

// If a body sets a default file, the setting ends with the body. See isolation.c.

// `io.input`. Upvalue: Lua's.
static int set_input(lua_State *L) {
    clua_state_of(L)->libraries_may_differ = true;
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// `io.output`, with the upvalues of `open_file`.
static int set_output(lua_State *L) {
    clua_state_of(L)->libraries_may_differ = true;
    return open_file(L);
}

static void flush_files(lua_State *L, int files) {
    fflush(stdout);
    fflush(stderr);
    lua_pushnil(L);
    while (lua_next(L, files)) {
        luaL_Stream *file = lua_touserdata(L, -2);
        if (file->closef != NULL) fflush(file->f);
        lua_pop(L, 1);
    }
}

// `io.popen`. `open_file` calls it without a frame of its own, so it sees the upvalues of `open_file`.
static int open_command(lua_State *L) {
    flush_files(L, lua_upvalueindex(2));
    return clua_open_command(L);
}

void clua_open_files(lua_State *L) {
    static const luaL_Reg openers[] = {
        {"open", open_file}, {"output", set_output}, {"popen", open_file}, {"tmpfile", open_file}, {NULL, NULL}};
    lua_getglobal(L, LUA_IOLIBNAME);
    int library = lua_gettop(L), files = library + 1;
    clua_push_weak(L, "k");

    lua_pushcfunction(L, open_command);
    lua_setfield(L, library, "popen");
    for (const luaL_Reg *opener = openers; opener->name != NULL; opener++) {
        lua_getfield(L, library, opener->name);
        lua_pushvalue(L, files);
        lua_pushcclosure(L, opener->func, 2);
        lua_setfield(L, library, opener->name);
    }
    lua_getfield(L, library, "input");
    lua_pushcclosure(L, set_input, 1);
    lua_setfield(L, library, "input");
    lua_settop(L, library - 1);

    lua_getglobal(L, LUA_OSLIBNAME);
    lua_pushcfunction(L, clua_execute_command);
    lua_setfield(L, -2, "execute");
    lua_pop(L, 1);
}
