// Stopping running code. May raise, except where noted.
#ifndef CLUA_STOP_RAISING_H
#define CLUA_STOP_RAISING_H

#include "interrupt.h"
#include "state.h"
#include "stop.h"

/// Initialize the stop record of a fresh state, and free what it owns. Never raise.
void clua_stop_init(clua_stop *stop, lua_State *L);
void clua_stop_free(clua_stop *stop);

/// Replaces `pcall`, `xpcall`, `load` and functions of `coroutine` by versions that pass a stop on and count. May
/// raise. Needs 4 free stack slots.
void clua_open_protected_calls(lua_State *L);

/// Whether an error with this status is a stop, which no caller may catch. Never raises.
bool clua_is_stop(lua_State *L, int status);

/// The message for a clua_stop_reason. Never raises.
const char *clua_stop_words(int reason);

/// As luaL_loadbufferx, but counts, so that compiling can be stopped, and refuses bytecode where that is restricted. May raise.
int clua_load_buffer(lua_State *L, const char *bytes, size_t count, const char *name);

/// Raises the pending stop.
int clua_raise_stop(lua_State *L);

/// Called by the allocator for a block of this size that would exceed the body's memory limit. Returns whether to allocate the block all the
/// same. Never raises.
bool clua_stop_at_limit(clua_state *state, size_t size);

/// No block can be this large: a request for one raises a memory error.
#define CLUA_IMPOSSIBLE_SIZE ((size_t)1 << 48)

/// The events for which our hooks are set. A count event stops the code. A call event only sets the hook once more: if the signal arrives
/// just while Lua finds that there is no hook (luaG_traceexec), Lua overlooks the new hook until the next call.
#define CLUA_STOP_EVENTS (LUA_MASKCOUNT | LUA_MASKCALL)

/// Sets the hook that stops the code that `L` runs. Async-signal-safe, as lua_sethook is.
void clua_arm_stop(lua_State *L);

/// Whether the calling thread is the state's. Async-signal-safe.
bool clua_is_on_thread(const clua_stop *stop);

/// Sends the stop signal to the state's thread, if it has one. Async-signal-safe.
void clua_signal_thread(const clua_stop *stop);

/// Finds out how Lua disallows hooks in finalizers, for `clua_allow_hooks`. Call once. Never raises.
void clua_find_hook_flag(void);

/// Lets hooks run in `L` even inside a finalizer or another hook. Returns whether Lua had disallowed them. Async-signal-safe.
bool clua_allow_hooks(lua_State *L);

/// Whether one of the innermost functions of `L` is a finalizer. Never raises.
bool clua_is_in_finalizer(lua_State *L);

/// Makes `L` count instructions if nothing else needs its hook. Never raises.
void clua_keep_counting(lua_State *L);

/// Makes `L` stop when the grace of the ending body is over. Each switch to `L` counts as instructions. Never raises.
void clua_keep_stopping(lua_State *L);

/// Counts a new coroutine, whose first instructions are not counted otherwise.
void clua_count_coroutine(lua_State *L);

/// Makes `L` the running coroutine and returns the previous one. Re-arms the hook if a stop or an interrupt is pending. Never raises.
static inline lua_State *clua_switch_running(lua_State *L) {
    clua_stop *stop = &clua_state_of(L)->stop;
    // Only a signal handler on this thread reads `running` meanwhile.
    lua_State *before = atomic_load_explicit(&stop->running, memory_order_relaxed);
    atomic_store_explicit(&stop->running, L, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    // If a request arrived before the switch, it has set its hook on the previous coroutine.
    if (atomic_load_explicit(&stop->requested, memory_order_relaxed) != 0) clua_arm_stop(L);
    clua_rearm_interrupt(L);
    if (atomic_load_explicit(&stop->raised, memory_order_relaxed) != 0) clua_keep_stopping(L);
    if (stop->instructions_left != CLUA_NO_INSTRUCTION_LIMIT) clua_keep_counting(L);
    return before;
}

#endif
