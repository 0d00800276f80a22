#include "Limits/ledger_raising.h"

#include <lua5.4/lauxlib.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ledger.h"
#include "state.h"

struct clua_ledger {
    atomic_int references;
    size_t limit;
    atomic_size_t bytes;
};

clua_ledger *clua_ledger_new(size_t limit) {
    clua_ledger *ledger = malloc(sizeof *ledger);
    if (ledger == NULL) return NULL;
    *ledger = (clua_ledger){.limit = limit};
    atomic_init(&ledger->references, 1);
    return ledger;
}

void clua_ledger_retain(clua_ledger *ledger) {
    if (ledger != NULL) atomic_fetch_add_explicit(&ledger->references, 1, memory_order_relaxed);
}

void clua_ledger_release(clua_ledger *ledger) {
    if (ledger != NULL && atomic_fetch_sub_explicit(&ledger->references, 1, memory_order_acq_rel) == 1) free(ledger);
}

void clua_ledger_add(clua_ledger *ledger, size_t bytes) {
    if (ledger != NULL) atomic_fetch_add_explicit(&ledger->bytes, bytes, memory_order_relaxed);
}

void clua_ledger_subtract(clua_ledger *ledger, size_t bytes) {
    if (ledger != NULL) atomic_fetch_sub_explicit(&ledger->bytes, bytes, memory_order_relaxed);
}

size_t clua_ledger_bytes(const clua_ledger *ledger) { return ledger == NULL ? 0 : atomic_load_explicit(&ledger->bytes, memory_order_relaxed); }

void clua_set_ledger(lua_State *L, clua_ledger *ledger) {
    clua_ledger_retain(ledger);
    clua_state_of(L)->ledger = ledger;
}

static bool has_room(const clua_ledger *ledger, size_t bytes) {
    size_t used = clua_ledger_bytes(ledger);
    return used <= ledger->limit && bytes <= ledger->limit - used;
}

bool clua_make_room(lua_State *L, size_t bytes) {
    enum { IN_VAIN_AT_ONCE = 4, MOST_DOUBLINGS = 10 };
    clua_state *state = clua_state_of(L);
    clua_ledger *ledger = state->ledger;
    if (ledger == NULL || has_room(ledger, bytes)) return true;
    if (bytes > ledger->limit) return false;
    if (state->collections_to_skip > 0) {
        state->collections_to_skip--;
        return false;
    }
    size_t before = clua_ledger_bytes(ledger);
    lua_gc(L, LUA_GCCOLLECT, 0);
    bool has = has_room(ledger, bytes);
    // A collection that makes room for little would be needed again soon.
    if (has && clua_ledger_bytes(ledger) + ledger->limit / 32 <= before) {
        state->vain_collections = 0;
    } else if (++state->vain_collections > IN_VAIN_AT_ONCE) {
        unsigned doublings = state->vain_collections - IN_VAIN_AT_ONCE;
        state->collections_to_skip = 1u << (doublings < MOST_DOUBLINGS ? doublings : MOST_DOUBLINGS);
    }
    return has;
}

static int push_refusal(lua_State *L) {
    lua_pushfstring(L, "the runtime's scripts keep more than %I bytes (limits.memory)", (LUAI_UACINT)clua_state_of(L)->ledger->limit);
    return 1;
}

int clua_raise_refusal_to_keep(lua_State *L) {
    luaL_where(L, 1);
    push_refusal(L);
    lua_concat(L, 2);
    return lua_error(L);
}

int clua_refuse_to_keep(lua_State *L) {
    lua_pushcfunction(L, push_refusal);
    int status = lua_pcall(L, 0, 1, 0);
    return status == LUA_OK ? LUA_ERRRUN : status;
}
