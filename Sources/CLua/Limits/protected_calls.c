// Replacements for the standard functions that catch errors. They do not catch a stop.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>

#include <string.h>

#include "Limits/count_raising.h"
#include "Limits/stop_raising.h"

// MARK: pcall, xpcall

// Ends a protected call that a stop has reached. When an error ends a protected call in a coroutine, Lua looks at each active function. So the
// time for many nested calls grows with the square of their number. Once `__close` handlers get no more time, the coroutine yields instead, and
// `resume` closes it.
static int pass_stop_on(lua_State *L) {
    clua_stop *stop = &clua_state_of(L)->stop;
    bool is_resumed_here = lua_isyieldable(L) && atomic_load_explicit(&stop->running, memory_order_relaxed) == L;
    if (!is_resumed_here || stop->message == NULL || stop->next_step > 1) return clua_raise_stop(L);
    stop->has_yielded = true;
    return lua_yield(L, 0);
}

// Results: a boolean, then what the function returned or raised. `below` is the number of values under the boolean.
static int finish_call(lua_State *L, int status, lua_KContext below) {
    if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)below;
    if (clua_is_stop(L, status)) return pass_stop_on(L);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int protected_call(lua_State *L) {
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return finish_call(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_call), 0);
}

// The handler stays below the boolean, at index 1.
static int protected_call_with_handler(lua_State *L) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    lua_pushvalue(L, 3);
    lua_insert(L, 1);
    lua_remove(L, 4);
    // Stack: handler, boolean, function, arguments.
    return finish_call(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 1, 1, finish_call), 1);
}

// MARK: load

// Stack indices in `load`. The piece that the reader function returned last must stay alive.
enum { CHUNK = 1, NAME, MODE, ENVIRONMENT, PIECE };

// Lua's compiler runs no instruction that a hook could see, and for some chunks its time grows with the square of their size. So the compiler
// gets each chunk piece by piece, and each piece counts.
enum { PIECE_SIZE = 512, STEPS_PER_PIECE = 5000 };

typedef struct reading {
    const char *next;  // NULL if a function returns the chunk
    size_t left;
} reading;

static const char *read_string(lua_State *L, reading *reading, size_t *size) {
    const char *piece = reading->next;
    *size = reading->left < PIECE_SIZE ? reading->left : PIECE_SIZE;
    reading->next += *size;
    reading->left -= *size;
    clua_count(L, STEPS_PER_PIECE * *size / PIECE_SIZE + 1);
    return *size > 0 ? piece : NULL;
}

static const char *read_piece(lua_State *L, void *context, size_t *size) {
    reading *reading = context;
    if (reading->left > 0 || lua_type(L, CHUNK) != LUA_TFUNCTION) return read_string(L, reading, size);
    luaL_checkstack(L, 2, "too many nested functions");
    lua_pushvalue(L, CHUNK);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        *size = 0;
        return NULL;
    }
    if (!lua_isstring(L, -1)) luaL_error(L, "reader function must return a string");
    lua_replace(L, PIECE);
    reading->next = lua_tolstring(L, PIECE, &reading->left);
    if (reading->left > 0) return read_string(L, reading, size);
    *size = 0;
    return NULL;
}

// The mode without the kinds of chunk that the state may not load.
static const char *allowed_mode(lua_State *L, const char *mode) {
    if (!(clua_state_of(L)->restrictions & CLUA_NO_BYTECODE)) return mode;
    return strchr(mode, 't') != NULL ? "t" : "";
}

static const char *read_buffer(lua_State *L, void *context, size_t *size) { return read_string(L, context, size); }

int clua_load_buffer(lua_State *L, const char *bytes, size_t count, const char *name) {
    // Outside of bodies only an interrupt could end the compilation, and the host could take its error for a syntax error.
    if (clua_state_of(L)->stop.body == NULL) return luaL_loadbufferx(L, bytes, count, name, allowed_mode(L, "bt"));
    reading reading = {bytes, count};
    return lua_load(L, read_buffer, &reading, name, allowed_mode(L, "bt"));
}

static int load(lua_State *L) {
    reading reading = {NULL, 0};
    reading.next = lua_tolstring(L, CHUNK, &reading.left);
    const char *mode = allowed_mode(L, luaL_optstring(L, MODE, "bt"));
    const char *name = luaL_optstring(L, NAME, reading.next != NULL ? reading.next : "=(load)");
    if (reading.next == NULL) luaL_checktype(L, CHUNK, LUA_TFUNCTION);
    bool has_environment = !lua_isnone(L, ENVIRONMENT);
    lua_settop(L, PIECE);
    bool was_interrupted = clua_interrupt_was_raised(L);
    int status = lua_load(L, read_piece, &reading, name, mode);
    if (clua_is_stop(L, status)) return clua_raise_stop(L);
    if (status != LUA_OK && clua_interrupt_was_raised(L) && !was_interrupted) return lua_error(L);
    if (status != LUA_OK) {
        luaL_pushfail(L);
        lua_insert(L, -2);
        return 2;
    }
    if (has_environment) {
        lua_pushvalue(L, ENVIRONMENT);
        if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
    }
    return 1;
}

// MARK: coroutines

// Ends the coroutine and runs its pending `__close` handlers. Returns a status, with the error on top of the coroutine if it failed.
static int reset(lua_State *coroutine) {
    // If a hook raised the error that killed the coroutine, Lua still treats the coroutine as inside that hook, and would call no hook in the
    // handlers.
    clua_allow_hooks(coroutine);
    lua_State *before = clua_switch_running(coroutine);
    int status = lua_resetthread(coroutine);
    clua_switch_running(before);
    return status;
}

// Resumes `coroutine` with the arguments on top of L. Returns the number of results on top of L, or -1 with the error there. Raises a stop.
static int resume(lua_State *L, lua_State *coroutine, int argument_count) {
    if (!lua_checkstack(coroutine, argument_count)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    lua_xmove(L, coroutine, argument_count);
    lua_State *before = clua_switch_running(coroutine);
    int count;
    int status = lua_resume(coroutine, L, argument_count, &count);
    clua_switch_running(before);
    bool is_stopped = clua_is_stop(L, status) || clua_state_of(L)->stop.has_yielded;
    if (!is_stopped && (status == LUA_OK || status == LUA_YIELD)) {
        if (!lua_checkstack(L, count + 1)) {
            lua_pop(coroutine, count);
            lua_pushliteral(L, "too many results to resume");
            return -1;
        }
        lua_xmove(coroutine, L, count);
        return count;
    }
    if (is_stopped) {
        clua_state_of(L)->stop.has_yielded = false;
        reset(coroutine);
        return clua_raise_stop(L);
    }
    lua_xmove(coroutine, L, 1);
    return -1;
}

static lua_State *check_coroutine(lua_State *L) {
    lua_State *coroutine = lua_tothread(L, 1);
    luaL_argexpected(L, coroutine != NULL, 1, "coroutine");
    return coroutine;
}

static int coroutine_resume(lua_State *L) {
    lua_State *coroutine = check_coroutine(L);
    int count = resume(L, coroutine, lua_gettop(L) - 1);
    lua_pushboolean(L, count >= 0);
    if (count < 0) count = 1;
    lua_insert(L, -count - 1);
    return count + 1;
}

// Upvalue: the coroutine.
static int call_wrapped(lua_State *L) {
    lua_State *coroutine = lua_tothread(L, lua_upvalueindex(1));
    int count = resume(L, coroutine, lua_gettop(L));
    if (count >= 0) return count;
    int status = lua_status(coroutine);
    if (status != LUA_OK && status != LUA_YIELD) {  // the error killed the coroutine, so its variables have to be closed
        status = reset(coroutine);
        if (clua_is_stop(L, status)) return clua_raise_stop(L);
        lua_xmove(coroutine, L, 1);
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int coroutine_create(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    clua_count_coroutine(L);
    lua_State *coroutine = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, coroutine, 1);
    return 1;
}

static int coroutine_wrap(lua_State *L) {
    coroutine_create(L);
    lua_pushcclosure(L, call_wrapped, 1);
    return 1;
}

static int coroutine_close(lua_State *L) {
    lua_State *coroutine = check_coroutine(L);
    lua_Debug activation;
    bool is_normal = lua_status(coroutine) == LUA_OK && lua_getstack(coroutine, 0, &activation);
    if (coroutine == L || is_normal) return luaL_error(L, "cannot close a %s coroutine", coroutine == L ? "running" : "normal");
    int status = reset(coroutine);
    if (clua_is_stop(L, status)) return clua_raise_stop(L);
    lua_pushboolean(L, status == LUA_OK);
    if (status == LUA_OK) return 1;
    lua_xmove(coroutine, L, 1);
    return 2;
}

void clua_open_protected_calls(lua_State *L) {
    lua_register(L, "pcall", protected_call);
    lua_register(L, "xpcall", protected_call_with_handler);
    lua_register(L, "load", load);
    lua_getglobal(L, LUA_COLIBNAME);
    lua_pushcfunction(L, coroutine_create);
    lua_setfield(L, -2, "create");
    lua_pushcfunction(L, coroutine_resume);
    lua_setfield(L, -2, "resume");
    lua_pushcfunction(L, coroutine_wrap);
    lua_setfield(L, -2, "wrap");
    lua_pushcfunction(L, coroutine_close);
    lua_setfield(L, -2, "close");
    lua_pop(L, 1);
}
