// Lua calls no hook inside finalizers and hooks: it clears a byte of the coroutine meanwhile. No function of Lua's API sets the byte, but a
// finalizer that loops must stop, too. Releases of Lua may put the byte elsewhere, so this file finds its place by trying.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Limits/stop_raising.h"

enum { SEARCHED_BYTES = 64, SEARCHED_LEVELS = 16 };

// Copies of the first bytes of a coroutine. The copy from a plain function excludes bytes that change in every call, such as those of the
// pointer to the innermost call.
typedef struct samples {
    unsigned char in_hook[SEARCHED_BYTES], in_function[SEARCHED_BYTES], in_finalizer[SEARCHED_BYTES];
} samples;

static samples *samples_of(lua_State *L) { return *(samples **)lua_getextraspace(L); }

static void copy_in_hook(lua_State *L, lua_Debug *activation) {
    (void)activation;
    memcpy(samples_of(L)->in_hook, L, SEARCHED_BYTES);
}

static int copy_in_function(lua_State *L) {
    memcpy(samples_of(L)->in_function, L, SEARCHED_BYTES);
    return 0;
}

static int copy_in_finalizer(lua_State *L) {
    memcpy(samples_of(L)->in_finalizer, L, SEARCHED_BYTES);
    return 0;
}

static int call_all(lua_State *L) {
    lua_sethook(L, copy_in_hook, LUA_MASKCALL, 0);
    lua_pushcfunction(L, copy_in_function);
    lua_call(L, 0, 0);
    lua_sethook(L, NULL, 0, 0);
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, copy_in_finalizer);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    return 0;
}

int clua_hook_flag_offset(lua_State *L) {
    samples samples = {0};
    *(struct samples **)lua_getextraspace(L) = &samples;
    lua_pushcfunction(L, call_all);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) return 0;
    const unsigned char *outside = (const unsigned char *)L;
    int found = 0, offset = 0;
    for (int i = 0; i < SEARCHED_BYTES; i++)
        if (outside[i] == 1 && samples.in_function[i] == 1 && samples.in_hook[i] == 0 && samples.in_finalizer[i] == 0) found++, offset = i;
    return found == 1 ? offset : 0;
}

static int flag_offset;  // 0: not found

void clua_find_hook_flag(void) {
    lua_State *L = luaL_newstate();
    if (L == NULL) return;
    flag_offset = clua_hook_flag_offset(L);
    lua_close(L);
}

// ThreadSanitizer would report the byte, which another thread may set in its builds: see stop.c.
__attribute__((no_sanitize("thread"))) bool clua_allow_hooks(lua_State *L) {
    if (flag_offset == 0) return false;
    unsigned char *flag = (unsigned char *)L + flag_offset;
    bool were_disallowed = *flag == 0;
    *flag = 1;
    return were_disallowed;
}

bool clua_is_in_finalizer(lua_State *L) {
    lua_Debug activation;
    for (int level = 0; level < SEARCHED_LEVELS && lua_getstack(L, level, &activation); level++)
        if (lua_getinfo(L, "n", &activation) && activation.name != NULL && strcmp(activation.name, "__gc") == 0) return true;
    return false;
}
