#include "libraries.h"

#include <limits.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Libraries/bounded_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/iterators_raising.h"
#include "Libraries/libraries_raising.h"
#include "Libraries/output_raising.h"
#include "Limits/stop_raising.h"
#include "state.h"

// Upvalue: Lua's `os.exit`. The host decides first.
static int exit_process(lua_State *L) {
    int status = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, 0);
    clua_state_of(L)->call_host(L, clua_state_of(L)->host->exit, status);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 0);
    return 0;
}

static void replace_exit(lua_State *L) {
    if (clua_state_of(L)->host->exit == NULL) return;
    lua_getglobal(L, LUA_OSLIBNAME);
    lua_getfield(L, -1, "exit");
    lua_pushcclosure(L, exit_process, 1);
    lua_setfield(L, -2, "exit");
    lua_pop(L, 1);
}

// Upvalue: a `debug` function that may expose the running function. The call adds no frame, which would shift its stack levels.
static int look(lua_State *L) {
    clua_state_of(L)->look_count++;
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Upvalue: a function that may expose a body's environment, or code that has it. The call adds no frame.
static int reveal(lua_State *L) {
    clua_fill_current_environment(L);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Upvalue: a `debug` function that assigns upvalues, perhaps those of a cached closure.
static int assign(lua_State *L) {
    clua_cached_closures_forget_upvalues(clua_state_of(L));
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Upvalue: `debug.upvaluejoin`. It assigns an upvalue, and that upvalue may be an environment.
static int join(lua_State *L) {
    clua_fill_current_environment(L);
    return assign(L);
}

// Upvalue: `debug.sethook`. It may replace the hook that stops a body, so the hook is set again.
static int set_hook(lua_State *L) {
    int count = lua_tocfunction(L, lua_upvalueindex(1))(L);
    clua_switch_running(L);
    return count;
}

// Whether the level of `thread` given at stack index `index` is a C function.
static bool is_c_function(lua_State *L, int index, lua_State *thread) {
    int is_integer;
    lua_Integer level = lua_tointegerx(L, index, &is_integer);
    lua_Debug about;
    if (!is_integer || level < 0 || level > INT_MAX || !lua_getstack(thread, (int)level, &about)) return false;
    return lua_getinfo(thread, "S", &about) != 0 && *about.what == 'C';
}

// Upvalue: `debug.setlocal`. The stack slots of C functions, such as the handles that keep the host's objects alive, are not local
// variables.
static int set_local(lua_State *L) {
    lua_State *thread = lua_tothread(L, 1);
    if (thread != NULL ? is_c_function(L, 2, thread) : is_c_function(L, 1, L)) {
        luaL_pushfail(L);
        return 1;
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Wraps functions of the table on top: each becomes the upvalue of its replacement.
static void replace_fields(lua_State *L, const luaL_Reg *replaced) {
    for (const luaL_Reg *entry = replaced; entry->name != NULL; entry++) {
        lua_getfield(L, -1, entry->name);
        lua_pushcclosure(L, entry->func, 1);
        lua_setfield(L, -2, entry->name);
    }
}

static void watch_debug(lua_State *L) {
    static const luaL_Reg replaced[] = {{"getinfo", look},       {"getlocal", look},    {"setupvalue", assign}, {"upvaluejoin", join},
                                        {"sethook", set_hook}, {"setlocal", set_local}, {"getupvalue", reveal}, {"getregistry", reveal},
                                        {NULL, NULL}};
    lua_getglobal(L, LUA_DBLIBNAME);
    replace_fields(L, replaced);
    lua_pop(L, 1);
}

// Upvalue: `collectgarbage`. A body that stops the collector stops it for itself; see isolation.c.
static int collect_garbage(lua_State *L) {
    if (strcmp(luaL_optstring(L, 1, "collect"), "stop") == 0) clua_state_of(L)->libraries_may_differ = true;
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static void watch_globals(lua_State *L) {
    static const luaL_Reg replaced[] = {
        {"collectgarbage", collect_garbage}, {"load", reveal}, {"loadfile", reveal}, {"dofile", reveal}, {NULL, NULL}};
    lua_pushglobaltable(L);
    replace_fields(L, replaced);
    lua_pop(L, 1);
}

// Lua creates the metatable of long buffers on first use. If memory ran out halfway, the metatable would lack its finalizer, and every
// later buffer would be an error. So it is created now.
static void make_long_buffer(lua_State *L) {
    luaL_Buffer buffer;
    luaL_buffinitsize(L, &buffer, LUAL_BUFFERSIZE + 1);
    luaL_pushresultsize(&buffer, 0);
    lua_pop(L, 1);
}

void clua_open_libraries(lua_State *L) {
    make_long_buffer(L);
    clua_open_output(L);
    clua_open_protected_calls(L);
    watch_globals(L);
    clua_open_files(L);
    replace_exit(L);
    watch_debug(L);
    clua_open_patterns(L);
    clua_open_iterators(L);
    clua_open_random(L);
    clua_open_strings(L);
    clua_open_tables(L);
}

// Stack: the two seeds.
static int seed_random(lua_State *L) {
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 0);
    return 0;
}

void clua_seed_random(lua_State *L, uint64_t first, uint64_t second) {
    lua_pushcfunction(L, seed_random);
    lua_pushinteger(L, (lua_Integer)first);
    lua_pushinteger(L, (lua_Integer)second);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
    clua_state_of(L)->has_saved_random = false;  // bodies find these numbers
}

// A state uses one of these three: warnings are off, on, or a warning is incomplete. `context` is the state's main thread.
static void warn_off(void *context, const char *message, int to_be_continued);
static void warn_on(void *context, const char *message, int to_be_continued);
static void warn_continue(void *context, const char *message, int to_be_continued);

static int is_control(void *context, const char *message, int to_be_continued) {
    if (to_be_continued || message[0] != '@') return 0;
    if (strcmp(message, "@off") == 0) lua_setwarnf(context, warn_off, context);
    if (strcmp(message, "@on") == 0) lua_setwarnf(context, warn_on, context);
    return 1;
}

static void warn_off(void *context, const char *message, int to_be_continued) {
    is_control(context, message, to_be_continued);
}

// A warning arrives in pieces. It is written in one, so that the warnings of several threads do not mix.
static void warn_continue(void *context, const char *message, int to_be_continued) {
    clua_state *state = clua_state_of(context);
    size_t count = strlen(message);
    char *warning = realloc(state->warning, state->warning_count + count + 1);
    if (warning != NULL) {
        memcpy(warning + state->warning_count, message, count);
        state->warning = warning;
        state->warning_count += count;
    }
    lua_setwarnf(context, to_be_continued ? warn_continue : warn_on, context);
    if (to_be_continued) return;
    if (state->warning != NULL) {
        state->warning[state->warning_count] = '\n';
        clua_write_warning(context, state->warning, state->warning_count + 1);
    }
    free(state->warning);
    state->warning = NULL;
    state->warning_count = 0;
}

static void warn_on(void *context, const char *message, int to_be_continued) {
    if (is_control(context, message, to_be_continued)) return;
    warn_continue(context, "Lua warning: ", 1);
    warn_continue(context, message, to_be_continued);
}

void clua_open_warnings(lua_State *L) { lua_setwarnf(L, warn_off, L); }

void clua_enable_warnings(lua_State *L) { lua_setwarnf(L, warn_on, L); }

const char *clua_copyright(void) { return LUA_COPYRIGHT; }
