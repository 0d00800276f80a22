// A program that loads the module: twice where the module refuses that, in two states of one thread, and in states of two threads at once.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char script[] =
    "local opscript = require 'opscript' "
    "local queue, sum = opscript.OperationQueue.new(), 0 "
    "for i = 1, 50 do "
    "  local op = opscript.Operation.new(function() return i end) "
    "  op.completionBlock = function() sum = sum + op.result end "
    "  queue:addOperation(op) "
    "end "
    "queue:waitUntilAllOperationsAreFinished() "
    "opscript.sleep(0) "
    "print(sum) "
    "queue:addOperation(function() print('left') end)";

static void *allocate(void *context, void *block, size_t old_size, size_t size) {
    (void)context, (void)old_size;
    if (size != 0) return realloc(block, size);
    free(block);
    return NULL;
}

static lua_State *open_state(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    return L;
}

static void run(lua_State *L, const char *text) {
    if (luaL_dostring(L, text) != LUA_OK) puts(lua_tostring(L, -1));
}

static void *use(void *unused) {
    (void)unused;
    for (int i = 0; i < 5; i++) {
        lua_State *L = open_state();
        run(L, script);
        lua_close(L);
    }
    return NULL;
}

int main(void) {
    lua_State *other = lua_newstate(allocate, NULL);
    luaL_openlibs(other);
    run(other, "local _, message = pcall(require, 'opscript') print(message)");
    lua_close(other);
    lua_State *L = open_state();
    run(L, "setmetatable({}, { __gc = function() print(select(2, pcall(require, 'opscript'))) end })");
    lua_close(L);
    lua_State *a = open_state(), *b = open_state();
    run(a, script);
    run(b, script);
    lua_close(a);
    lua_close(b);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
