#include "CTestSupport.h"

#include <stdatomic.h>
#include <stdlib.h>

struct failing {
    // The allocator of the state.
    lua_Alloc allocate;
    void *context;
    atomic_size_t before;  // the number of allocations that still succeed
    atomic_int left;       // the number of failures to come
    atomic_bool has_failed;
    struct failing *next;
};

// Records are never freed: a test may ask whether an allocation failed in a state that has gone.
static _Atomic(struct failing *) all;

static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    struct failing *failing = context;
    if (failing->left > 0 && new_size > (block == NULL ? 0 : old_size)) {
        if (failing->before == 0) {
            failing->left--;
            failing->has_failed = true;
            return NULL;
        }
        failing->before--;
    }
    return failing->allocate(failing->context, block, old_size, new_size);
}

static struct failing *make_failing(lua_State *L) {
    struct failing *failing = calloc(1, sizeof *failing);
    if (failing == NULL) abort();
    failing->allocate = lua_getallocf(L, &failing->context);
    failing->next = all;
    while (!atomic_compare_exchange_weak(&all, &failing->next, failing)) {}
    lua_setallocf(L, allocate, failing);
    return failing;
}

struct failing *fail_allocation(lua_State *L, size_t number) {
    void *context;
    struct failing *failing = lua_getallocf(L, &context) == allocate ? context : make_failing(L);
    failing->before = number;
    failing->left = 2;
    failing->has_failed = false;
    return failing;
}

bool stop_failing(struct failing *failing) {
    failing->left = 0;
    return failing->has_failed;
}
