#include "adoption.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Libraries/Libraries.h"
#include "Limits/Limits.h"

// Lua frees the block of the main thread last. The block begins with the extra space.
static void *last_block_of(lua_State *main) { return lua_getextraspace(main); }

static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    clua_state *state = context;
    if (new_size != 0 || block == NULL || block != state->last_block) return clua_allocate(state, block, old_size, new_size);
    state->adoption.ended(state->adoption.context, state);
    free(block);
    return NULL;
}

lua_State *clua_main_thread(lua_State *L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

// MARK: the end

// The sentinel is a userdata in the registry, under this address, so its finalizer runs when the state is closed. Its user values are the
// module and a coroutine.
static const char sentinel_key;
enum { SENTINEL_MODULE = 1, SENTINEL_COROUTINE = 2 };

static int run_ending(lua_State *L) {
    clua_adoption *adoption = &clua_state_of(L)->adoption;
    void (*ending)(void *, lua_State *) = adoption->ending;
    adoption->ending = NULL;
    if (ending != NULL) ending(adoption->context, L);
    return 0;
}

// Lua runs no hooks in a finalizer, and without hooks no code could be stopped. So the ending runs in a coroutine.
static int end_state(lua_State *L) {
    if (lua_getiuservalue(L, 1, SENTINEL_COROUTINE) != LUA_TTHREAD) return 0;
    lua_State *coroutine = lua_tothread(L, -1);
    int count;
    lua_pushcfunction(coroutine, run_ending);
    lua_State *before = clua_switch_running(coroutine);
    lua_resume(coroutine, L, 0, &count);
    clua_switch_running(before);
    return 0;
}

static void add_sentinel(lua_State *L, int module) {
    lua_newuserdatauv(L, 0, 2);
    lua_pushvalue(L, module);
    lua_setiuservalue(L, -2, SENTINEL_MODULE);
    lua_newthread(L);
    lua_setiuservalue(L, -2, SENTINEL_COROUTINE);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, end_state);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinel_key);
}

bool clua_push_adopted_module(lua_State *L) {
    bool is_adopted = lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinel_key) == LUA_TUSERDATA;
    if (is_adopted) {
        lua_getiuservalue(L, -1, SENTINEL_MODULE);
        lua_remove(L, -2);
    } else {
        lua_pop(L, 1);
    }
    return is_adopted;
}

// MARK: the beginning

// Stack: a table for the changes. Returns the module.
static int open_as_fresh(lua_State *L) {
    luaL_checkstack(L, 24, NULL);
    clua_hide_changes(L, 1);
    clua_open_kept(L);
    clua_open_iterators(L);
    clua_open_module(L, false);
    clua_index_stock_functions(L);
    add_sentinel(L, 2);
    return 1;
}

static int open_adopted(lua_State *L) {
    clua_mark_coroutines(L);
    lua_settop(L, 0);
    lua_newtable(L);
    lua_pushcfunction(L, open_as_fresh);
    lua_pushvalue(L, 1);
    int status = lua_pcall(L, 1, 1, 0);
    clua_restore_changes(L, 1);
    if (status != LUA_OK) return lua_error(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "opscript");
    lua_pop(L, 1);
    clua_modules_changed(L);
    return 1;
}

static int refuse(lua_State *L) {
    return luaL_error(
        L, "module 'opscript' needs a state with the allocator of luaL_newstate, because strings travel between states without being copied");
}

static int refuse_in_finalizer(lua_State *L) {
    return luaL_error(L, "module 'opscript' cannot be loaded by a finalizer: load it before");
}

static int collect(lua_State *L) {
    lua_gc(L, LUA_GCCOLLECT);
    return 0;
}

static int fail(lua_State *L, lua_CFunction function) {
    lua_pushcfunction(L, function);
    return lua_pcall(L, 0, 0, 0);
}

static int lack_memory(lua_State *L) { return clua_no_memory(L); }

int clua_prepare_adoption(lua_State *L) {
    if (!clua_stock_open()) return fail(L, lack_memory);
    if (lua_getallocf(L, NULL) != clua_stock_allocator()) return fail(L, refuse);
    if (lua_gc(L, LUA_GCCOUNT) < 0) return fail(L, refuse_in_finalizer);  // inside a finalizer, lua_gc returns -1
    lua_pushcfunction(L, collect);
    return lua_pcall(L, 0, 0, 0);
}

int clua_state_adopt(lua_State *L, void *object, const clua_host *host, clua_adoption adoption) {
    clua_state *state = clua_record_new(object, host);
    if (state == NULL) return fail(L, lack_memory);
    lua_State *main = clua_main_thread(L);
    state->adoption = adoption;
    state->last_block = last_block_of(main);
    clua_stop_init(&state->stop, main);
    *(clua_state **)lua_getextraspace(main) = *(clua_state **)lua_getextraspace(L) = state;
    bool collects = lua_gc(L, LUA_GCISRUNNING) == 1;
    lua_gc(L, LUA_GCSTOP);
    state->used_bytes = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
    lua_setallocf(L, allocate, state);
    lua_pushcfunction(L, open_adopted);
    int status = lua_pcall(L, 0, 1, 0);
    if (collects) lua_gc(L, LUA_GCRESTART);
    return status;
}
