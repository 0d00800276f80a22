#include "lifetime.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/sysinfo.h>
#endif

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Libraries/Libraries.h"
#include "Limits/Limits.h"
#include "Objects/Objects.h"
#include "Transfer/Transfer.h"

// The machine's memory and swap. Beyond that, an allocator that overcommits may get the process killed.
static size_t machine_bytes(void) {
#ifdef __linux__
    struct sysinfo machine;
    if (sysinfo(&machine) == 0) return ((size_t)machine.totalram + machine.totalswap) * machine.mem_unit;
#endif
    return CLUA_IMPOSSIBLE_SIZE - 1;
}

// Whether a block that exceeds the limit is allocated all the same.
static bool may_exceed_limit(clua_state *state, size_t size) {
    bool is_impossible = state->limit_bytes == state->possible_bytes || size >= CLUA_IMPOSSIBLE_SIZE;
    if (is_impossible || state->stop.body == NULL || clua_is_body_of_call(state->stop.body)) return false;
    return clua_stop_at_limit(state, size);
}

static void count_allocated(clua_state *state, size_t used_bytes) {
    state->used_bytes = used_bytes;
    state->stop.refused_size = 0;
}

// Every allocation of every script calls this function, so each instruction counts. Therefore it calls into the folders directly.
void *clua_allocate(void *context, void *block, size_t old_size, size_t new_size) {
    clua_state *state = context;
    if (block == NULL) {  // then `old_size` is the type of the object, not a size
        if (new_size == 0) return NULL;
        size_t used_bytes = state->used_bytes + new_size;
        if (used_bytes > state->limit_bytes && !may_exceed_limit(state, new_size)) return NULL;
        void *made = malloc(new_size);
        if (made != NULL) count_allocated(state, used_bytes);
        return made;
    }
    if (new_size == 0) {
        state->used_bytes -= old_size;
        if (block == state->last_prototype) state->last_prototype = NULL;
        if (old_size == state->handles.block_size) {
            if (clua_handle_is_freed(&state->handles, block)) return NULL;
            if (state->has_frozen) clua_frozen_view_is_freed(state, block);
        }
        if (old_size <= CLUA_MIN_SHARED_STRING || !clua_hand_over_block(state, block, old_size)) free(block);
        return NULL;
    }
    size_t used_bytes = state->used_bytes - old_size + new_size;
    if (new_size > old_size && used_bytes > state->limit_bytes && !may_exceed_limit(state, new_size)) return NULL;
    void *moved = realloc(block, new_size);
    if (moved != NULL) count_allocated(state, used_bytes);
    return moved;
}

// Runs on an error outside every protected call: a defect of this layer, never of a script.
static int panic(lua_State *L) {
    const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error object is not a string";
    lua_writestringerror("opscript bug: unprotected error in call to Lua (%s)\n", message);
    return 0;
}

static void push_module(lua_State *L, const clua_host *host) {
    lua_createtable(L, 0, (int)(host->class_count + host->function_count + host->script.function_count) + 2);
    for (size_t i = 0; i < host->class_count; i++) {
        const clua_class *class = &host->classes[i];
        if (!clua_class_defines(class, "new")) continue;  // only the runtime makes objects of the class
        clua_open_class(L, class);
        clua_open_methods_of_script(L, class->kind);
        lua_setfield(L, -2, class->name);
    }
    for (size_t i = 0; i < host->function_count; i++) {
        clua_push_function(L, host->call, host->functions[i].member);
        lua_setfield(L, -2, host->functions[i].name);
    }
    clua_open_frozen(L);
    clua_open_fs(L);
    clua_open_json(L);
    clua_open_script(L);
}

void clua_open_kept(lua_State *L) {
    clua_registry_open(L);
    clua_objects_open(L);
    clua_collections_open(L);
}

void clua_open_module(lua_State *L, bool is_global) {
    clua_open_libraries(L);
    clua_open_require(L);
    clua_restrict(L);
    push_module(L, clua_state_of(L)->host);
    int module = lua_gettop(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, module);
    lua_setfield(L, -2, "opscript");
    lua_settop(L, module);
    if (is_global) {
        lua_pushvalue(L, module);
        lua_setglobal(L, "opscript");
    }
    clua_transport_open(L);
    clua_settings_open(L);
    lua_settop(L, module);
}

static int open_state(lua_State *L) {
    lua_settop(L, 0);
    clua_open_kept(L);
    if (clua_state_of(L)->restrictions & CLUA_NO_ENVIRONMENT) {
        lua_pushboolean(L, 1);
        lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
    }
    luaL_openlibs(L);
    clua_open_module(L, true);
    return 0;
}

clua_state *clua_record_new(void *object, const clua_host *host) {
    clua_state *state = calloc(1, sizeof(clua_state));
    if (state == NULL) return NULL;
    state->object = object;
    state->host = host;
    state->call_host = clua_call_host;
    state->push_new_metatable = clua_push_new_metatable;
    state->destroy_dead_frozen = clua_destroy_dead_frozen;
    state->state_limit = state->limit_bytes = state->possible_bytes = machine_bytes();
    return state;
}

lua_State *clua_state_new(void *object, const clua_host *host, unsigned restrictions) {
    clua_state *state = clua_record_new(object, host);
    if (state == NULL) return NULL;
    state->restrictions = restrictions;
    lua_State *L = lua_newstate(clua_allocate, state);
    if (L == NULL) {
        free(state);
        return NULL;
    }
    *(clua_state **)lua_getextraspace(L) = state;
    clua_stop_init(&state->stop, L);
    lua_atpanic(L, panic);
    clua_open_warnings(L);

    lua_gc(L, LUA_GCSTOP);  // nothing is garbage yet
    lua_pushcfunction(L, open_state);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        clua_state_close(L);
        return NULL;
    }
    lua_gc(L, LUA_GCRESTART);
    lua_gc(L, LUA_GCGEN, 0, 0);
    return L;
}

void clua_state_close(lua_State *L) {
    clua_state *state = clua_state_of(L);
    clua_lua_close(L);
    clua_state_free(state);
}

void clua_state_leave(lua_State *L) {
    clua_forget_interrupts(clua_state_of(L));
    clua_detach_thread(L);
}

void clua_lua_close(lua_State *L) {
    clua_state_leave(L);
    lua_close(L);
}

void clua_state_free(clua_state *state) {
    clua_discard_temporaries(state, 0);
    clua_shared_strings_free(state);
    clua_handles_close(state);
    free(state->warning);
    clua_cached_closures_close(state);
    clua_code_close(state);
    clua_stop_free(&state->stop);
    clua_ledger_release(state->ledger);
    free(state);
}
