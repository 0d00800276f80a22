// A module for Lua that forks. Tests compile it.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <sys/wait.h>
#include <unistd.h>

// Returns the number of the child, and 0 there.
static int fork_process(lua_State *L) {
    lua_pushinteger(L, fork());
    return 1;
}

// Waits for a child. Returns "exit" or "signal", and the number.
static int wait_for(lua_State *L) {
    int status = 0;
    waitpid((pid_t)luaL_checkinteger(L, 1), &status, 0);
    lua_pushstring(L, WIFEXITED(status) ? "exit" : "signal");
    lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 2;
}

int luaopen_forking(lua_State *L) {
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, fork_process);
    lua_setfield(L, -2, "fork");
    lua_pushcfunction(L, wait_for);
    lua_setfield(L, -2, "wait");
    return 1;
}
