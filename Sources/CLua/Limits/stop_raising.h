// Stopping what runs. May raise, except where it says so.
#ifndef CLUA_STOP_RAISING_H
#define CLUA_STOP_RAISING_H

#include "interrupt.h"
#include "state.h"
#include "stop.h"

/// Prepares a fresh state's part, and gives back what it owns. Never raise.
void clua_stop_init(clua_stop *stop, lua_State *L);
void clua_stop_free(clua_stop *stop);

/// Replaces `pcall`, `xpcall`, `load`, `coroutine.resume`, `coroutine.wrap` and `coroutine.close` by ones that pass a stop on. May raise. Needs 4 slots.
void clua_open_protected_calls(lua_State *L);

/// Whether an error with this status is a stop, which nobody may catch. Never raises.
bool clua_is_stop(lua_State *L, int status);

/// What messages call a stop, by its clua_stop_reason. Never raises.
const char *clua_stop_words(int reason);

/// Raises the stop that is under way.
int clua_raise_stop(lua_State *L);

/// The allocator refuses a body this size, which would go past the limit. Never raises.
void clua_stop_at_limit(clua_state *state, size_t size);

/// No block is as large: asking for one raises a memory error.
#define CLUA_IMPOSSIBLE_SIZE ((size_t)1 << 48)

/// Sets the hook that stops what `L` runs. Async-signal-safe as lua_sethook is.
void clua_arm_stop(lua_State *L);

/// The coroutine `L` runs now; returns which one did. If a stop was asked for or Ctrl-C pressed, it is stopped. Never raises.
static inline lua_State *clua_switch_running(lua_State *L) {
    clua_stop *stop = &clua_state_of(L)->stop;
    // Only a signal handler on this thread looks meanwhile.
    lua_State *before = atomic_load_explicit(&stop->running, memory_order_relaxed);
    atomic_store_explicit(&stop->running, L, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    // A request that found the other one running set its hook.
    if (atomic_load_explicit(&stop->requested, memory_order_relaxed) != 0) clua_arm_stop(L);
    clua_rearm_interrupt(L);
    return before;
}

#endif
