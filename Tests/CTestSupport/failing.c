#include "CTestSupport.h"

// What this thread's state allocates with, and what is to fail. A state is used by one thread.
static _Thread_local struct {
    lua_Alloc allocate;
    size_t before;  // allocations that still succeed
    int left;       // failures to come
    bool has_failed;
} failing;

static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    if (failing.left > 0 && new_size > (block == NULL ? 0 : old_size)) {
        if (failing.before == 0) {
            failing.left--;
            failing.has_failed = true;
            return NULL;
        }
        failing.before--;
    }
    return failing.allocate(context, block, old_size, new_size);
}

void fail_allocation(lua_State *L, size_t number) {
    void *context;
    lua_Alloc current = lua_getallocf(L, &context);
    if (current != allocate) {
        failing.allocate = current;
        lua_setallocf(L, allocate, context);
    }
    failing.before = number;
    failing.left = 2;
    failing.has_failed = false;
}

bool stop_failing(void) {
    failing.left = 0;
    return failing.has_failed;
}
