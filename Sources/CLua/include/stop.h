// Stopping a body that does not check for cancellation.
//
// A stop costs nothing until it happens. Then a signal to the body's thread sets a hook, and the hook raises a memory error, the only kind of
// error for which Lua calls no message handler. Our versions of `pcall`, `xpcall`, `load`, `coroutine.resume`, `coroutine.wrap` and
// `coroutine.close` pass the error on. If other code swallows it, the hook raises it again. Pending `__close` handlers run during unwinding.
#ifndef CLUA_STOP_H
#define CLUA_STOP_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Why a body is stopped.
typedef enum clua_stop_reason {
    CLUA_NOT_STOPPED,
    CLUA_STOP_INTERRUPTED,
    CLUA_STOP_TIMEOUT,
    CLUA_STOP_MEMORY,
    CLUA_STOP_INSTRUCTIONS
} clua_stop_reason;

/// The signal sent to threads: SIGRTMIN + 6, unless changed before the first state is created.
void clua_set_stop_signal(int signal_number);
int clua_get_stop_signal(void);

/// The offset of the byte of a coroutine with which this release of Lua allows hooks; 0 if it was not found. `L` is the main coroutine of a
/// fresh state, which is not one of ours. Does not raise.
int clua_hook_flag_offset(lua_State *L);

/// Makes the calling thread the one that runs the state, until clua_detach_thread on the same thread. A request or a signal that arrived while
/// no thread was attached takes effect in the code that the state runs next.
void clua_attach_thread(lua_State *L);
void clua_detach_thread(lua_State *L);

/// The host object of the state last attached to the calling thread; NULL if none is attached.
void *clua_thread_object(void);

/// Any thread: stops `body` if the state runs it now, and, if it is a call of the host, also the code inside it. A waiting body is not
/// stopped: the thread that resumes it checks, and calls clua_stop_here. The state must not be closed during the call.
void clua_request_stop(lua_State *L, const void *body, clua_stop_reason reason);

/// Any thread: sends the signal again if `body` still runs in the state. Lua may overlook a signal, and each finalizer needs its own. Returns
/// whether the body runs. The state must not be closed meanwhile.
bool clua_repeat_stop(lua_State *L, const void *body);

/// As clua_request_stop, for all code that the state is running, in a body or not. If it runs none, stops the code that it runs next.
void clua_request_end(lua_State *L);

/// On the state's thread: withdraws a request that has not been raised, because the caller itself ends the code that it was meant for.
void clua_withdraw_request(lua_State *L);

/// Exits the process with this status after some seconds, unless it has ended by then. Any thread.
void clua_exit_later(int status, unsigned seconds);

/// Any thread: whether `body` runs or waits in the state. The state must not be closed meanwhile.
bool clua_has_body(lua_State *L, const void *body);

/// Any thread: whether `body` runs in the state and has not reacted to its request, because no Lua instruction has run since. The body then
/// counts as given up, and further calls return false. The state must not be closed meanwhile.
bool clua_give_up_body(lua_State *L, const void *body);

/// The body that stands for a call of the host into the main state, which can be stopped like a body. Unlike a body it is not stopped when
/// memory runs out: Lua raises an error, as in any other script of the main state.
static inline const void *clua_body_of_call(const void *call) { return (const char *)call + 1; }

static inline bool clua_is_body_of_call(const void *body) { return ((uintptr_t)body & 1) != 0; }

/// The body that the state's thread was running before clua_begin_body.
typedef struct clua_suspended_body {
    const void *body;
    int requested;
    int raised;
    char *message;
    char *traceback;
    size_t limit_bytes;
    int64_t instructions_left;
    struct clua_allowance *shared_instructions;
    ptrdiff_t grace_left;
    int next_step;
    bool is_given_up;
    struct clua_suspended_body *outer;
} clua_suspended_body;

/// On the state's thread: makes `body` (NULL for none) the running body until clua_end_body with the same `suspended`, which must not move.
/// Neither function raises.
void clua_begin_body(lua_State *L, const void *body, clua_suspended_body *suspended);

/// Returns whether the body was given up.
bool clua_end_body(lua_State *L, const clua_suspended_body *suspended);

/// On the state's thread: stops the running body after `count` more instructions, or when `shared` (NULL for none) is spent. The count has the
/// precision of a thousand. Steps of loops in C count, and this call and each new coroutine count as a thousand. Code with this limit takes
/// about twice as long.
void clua_limit_instructions(lua_State *L, int64_t count, struct clua_allowance *shared);

/// On the state's thread: marks the running body as stopped, because a request arrived while it waited.
void clua_stop_here(lua_State *L, clua_stop_reason reason);

#endif
