// Stopping a body that does not look whether it is cancelled.
//
// Nothing is paid until it happens: then a signal to the body's own thread sets a hook, and the hook raises a memory error, the
// only kind of error for which Lua calls no message handler. Our `pcall`, `xpcall`, `coroutine.resume` and `coroutine.wrap` pass it
// on; whatever else swallows it is interrupted again. Pending `__close` handlers run on the way.
#ifndef CLUA_STOP_H
#define CLUA_STOP_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

/// Why a body is stopped.
typedef enum clua_stop_reason {
    CLUA_NOT_STOPPED,
    CLUA_STOP_INTERRUPTED,
    CLUA_STOP_TIMEOUT,
    CLUA_STOP_MEMORY
} clua_stop_reason;

/// The signal that is sent to threads, SIGRTMIN + 6 unless changed before the first state is made.
void clua_set_stop_signal(int signal_number);
int clua_get_stop_signal(void);

/// The calling thread is the one that runs the state from now on, until clua_detach_thread.
void clua_attach_thread(lua_State *L);
void clua_detach_thread(lua_State *L);

/// The host's object of the state that the calling thread was attached to last; NULL when it has been detached.
void *clua_thread_object(void);

/// From any thread: stops the body `body` if the state is running it, not waiting or doing something else in between. A body
/// that is not running there now is not stopped: who goes on with it looks (clua_stop_here). The state must not be closed meanwhile.
void clua_request_stop(lua_State *L, const void *body, clua_stop_reason reason);

/// The same for whatever the state is running, in a body or not.
void clua_request_end(lua_State *L);

/// Ends the process with this status after some seconds, unless it has ended by then. Any thread.
void clua_exit_later(int status, unsigned seconds);

/// From any thread: whether `body` runs in the state, or waits there. The state must not be closed meanwhile.
bool clua_has_body(lua_State *L, const void *body);

/// From any thread: whether `body` runs in the state and has not noticed yet that it was asked to stop: no instruction of Lua has been
/// executed since. Then it is given up; the second time this returns false. The state must not be closed meanwhile.
bool clua_give_up_body(lua_State *L, const void *body);

/// What the state's thread was running before clua_begin_body.
typedef struct clua_suspended_body {
    const void *body;
    int requested;
    int raised;
    char *message;
    char *traceback;
    size_t limit_bytes;
    bool is_given_up;
    struct clua_suspended_body *outer;
} clua_suspended_body;

/// On the state's thread: `body`, NULL for none, runs now, and what ran before does not, until clua_end_body with the same `suspended`, which
/// stays where it is. Never raise.
void clua_begin_body(lua_State *L, const void *body, clua_suspended_body *suspended);

/// Returns whether the body has been given up.
bool clua_end_body(lua_State *L, const clua_suspended_body *suspended);

/// On the state's thread: the body that is running has been asked to stop while it waited.
void clua_stop_here(lua_State *L, clua_stop_reason reason);

#endif
