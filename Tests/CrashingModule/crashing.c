// A module for Lua whose functions do what no Lua code can do. Tests compile it.
#include <lua5.4/lua.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int fault(lua_State *L) {
    *(volatile int *)lua_touserdata(L, 1) = 1;
    return 0;
}

static int give_up(lua_State *L) {
    (void)L;
    abort();
}

static int leave(lua_State *L) { exit((int)lua_tointeger(L, 1)); }

static int loop(lua_State *L) {
    (void)L;
    volatile bool goes_on = true;
    while (goes_on) continue;
    return 0;
}

static int close_all(lua_State *L) {
    (void)L;
    for (int i = 0; i < 256; i++) close(i);
    return 0;
}

static int halt(lua_State *L) {
    (void)L;
    kill(getpid(), SIGSTOP);
    return 0;
}

static int id(lua_State *L) {
    lua_pushinteger(L, getpid());
    return 1;
}

// Returns the number of the child, and 0 there.
static int fork_process(lua_State *L) {
    lua_pushinteger(L, fork());
    return 1;
}

// Waits for a child. Returns "exit" or "signal", and the number.
static int wait_for(lua_State *L) {
    int status = 0;
    waitpid((pid_t)lua_tointeger(L, 1), &status, 0);
    lua_pushstring(L, WIFEXITED(status) ? "exit" : "signal");
    lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 2;
}

int luaopen_crashing(lua_State *L) {
    static const struct {
        const char *name;
        lua_CFunction function;
    } functions[] = {
        {"fault", fault}, {"abort", give_up}, {"exit", leave},        {"loop", loop},     {"closeAll", close_all},
        {"halt", halt},   {"id", id},         {"fork", fork_process}, {"wait", wait_for},
    };
    lua_createtable(L, 0, 9);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcclosure(L, functions[i].function, 0);
        lua_setfield(L, -2, functions[i].name);
    }
    return 1;
}
