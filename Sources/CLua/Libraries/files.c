#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdio.h>

#include "Libraries/libraries_raising.h"

// Lua's own `io.popen` has the C library flush all files of the process, so that what the script has written is there for the command. That
// waits for each file that another thread is using, and while it waits nobody can open one: a body that reads from a pipe would stop all
// others. Only the state's own files matter, and nobody else uses those. So they are noted where they are opened.

// Upvalues: a function of the `io` library that may open a file; the set of open files, which does not keep them.
static int open_file(lua_State *L) {
    int count = lua_tocfunction(L, lua_upvalueindex(1))(L);
    if (count > 0 && luaL_testudata(L, -count, LUA_FILEHANDLE) != NULL) {
        lua_pushvalue(L, -count);
        lua_pushboolean(L, 1);
        lua_rawset(L, lua_upvalueindex(2));
    }
    return count;
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

static int close_command(lua_State *L) {
    luaL_Stream *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    errno = 0;  // what comes before is not the command's
    return luaL_execresult(L, pclose(file->f));
}

// `io.popen`, which `open_file` calls: the upvalues are those of that.
static int open_command(lua_State *L) {
    const char *command = luaL_checkstring(L, 1);
    const char *mode = luaL_optstring(L, 2, "r");
    luaL_argcheck(L, (*mode == 'r' || *mode == 'w') && mode[1] == '\0', 2, "invalid mode");
    luaL_Stream *file = lua_newuserdatauv(L, sizeof *file, 0);
    file->closef = NULL;  // not open yet
    luaL_setmetatable(L, LUA_FILEHANDLE);
    flush_files(L, lua_upvalueindex(2));
    file->f = popen(command, mode);
    file->closef = close_command;
    return file->f == NULL ? luaL_fileresult(L, 0, command) : 1;
}

void clua_open_files(lua_State *L) {
    static const char *const openers[] = {"open", "output", "popen", "tmpfile", NULL};
    lua_getglobal(L, LUA_IOLIBNAME);
    int library = lua_gettop(L), files = library + 1;
    lua_createtable(L, 0, 4);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, files);

    lua_pushcfunction(L, open_command);
    lua_setfield(L, library, "popen");
    for (const char *const *name = openers; *name != NULL; name++) {
        lua_getfield(L, library, *name);
        lua_pushvalue(L, files);
        lua_pushcclosure(L, open_file, 2);
        lua_setfield(L, library, *name);
    }
    lua_settop(L, library - 1);
}
