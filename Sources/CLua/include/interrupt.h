// Ctrl-C, SIGTERM and SIGHUP: how they reach a running state or a waiting thread.
#ifndef CLUA_INTERRUPT_H
#define CLUA_INTERRUPT_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Makes the signal handler call `function` before a signal ends the process. It may do only what a signal handler may do.
void clua_before_death(void (*function)(void));

/// The same for a function that kills the programs of scripts. It is called first.
void clua_kill_programs_at_death(void (*function)(void));

/// Makes the first SIGINT raise the error `interrupted!` in the code that the state of `L` is running. The next SIGINT ends the process. Only
/// one state per process catches interrupts. The signal handler calls `wake`, which ends a sleep of the state's thread.
void clua_catch_interrupts(lua_State *L, void (*wake)(void *context), void *context);

/// Whether SIGINT has a handler that is not this layer's.
bool clua_others_catch_interrupts(void);

/// Sets the hook again if a signal still has to be raised: `L` has started to run, or lost its hook. Call it on the thread of `L`.
void clua_rearm_interrupt(lua_State *L);

/// As clua_catch_interrupts, for SIGTERM until clua_release_interrupts, and for SIGHUP unless the process ignores it or the host handles it. The same
/// for SIGQUIT, which ends the process at once. No effect unless SIGINT is caught. One thread at a time may call it.
void clua_catch_terminate(void);

/// Restores the previous handlers of all these signals. A signal that has already arrived stays pending for its state.
void clua_release_interrupts(void);

/// As clua_release_interrupts, if `state` is the target. Call it before closing the state. Soon after the first signal, the handlers stay
/// until the next separate request, because a second signal may belong to the same request.
void clua_forget_interrupts(clua_state *state);

/// Takes the pending signal of `L`, one that has not become an error yet. Returns 0 if there is none.
int clua_take_interrupt(lua_State *L);

/// Whether a signal for the state has neither become an error nor been taken. Async-signal-safe.
bool clua_interrupt_is_pending(const clua_state *state);

/// Raises the pending signal of `L` as an error, if there is one.
void clua_raise_interrupt(lua_State *L);

/// Whether the last signal of `L` has become an error, or was taken.
bool clua_interrupt_was_raised(lua_State *L);

/// Raises the interrupt again, because a caller caught its error as a value. Call it on the thread of `L`, while `L` runs.
void clua_renew_interrupt(lua_State *L);

/// The last signal for `L` since clua_catch_interrupts, or 0.
int clua_last_interrupt(lua_State *L);

#endif
