// Ctrl-C, and a polite request to end: how they reach a state that is running, or a thread that waits.
#ifndef CLUA_INTERRUPT_H
#define CLUA_INTERRUPT_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// From now on the first SIGINT raises the error `interrupted!` in what the state of `L` is running; the next one ends the process.
/// One state of a process at a time. `wake` ends a sleep of its thread; it is called in the signal's handler.
void clua_catch_interrupts(lua_State *L, void (*wake)(void *context), void *context);

/// `L` runs now, or its hook was taken away: sets it where a signal has still to be raised. On the thread of `L`.
void clua_rearm_interrupt(lua_State *L);

/// SIGTERM does the same from now on, until clua_release_interrupts. Nothing where SIGINT is not caught. One thread at a time.
void clua_catch_terminate(void);

/// Puts both signals back to what they were. One that has come already stays for its state.
void clua_release_interrupts(void);

/// The same, if it is this state that they reach: it is about to be closed. Soon after the first signal, when a second one is no other, only
/// the next one that counts does it.
void clua_forget_interrupts(clua_state *state);

/// The signal that has come for `L` and has not become an error yet, or 0; takes it.
int clua_take_interrupt(lua_State *L);

/// Whether the signal that has come for `L` has become an error, or was taken.
bool clua_interrupt_was_raised(lua_State *L);

/// That error has become a value: it is raised again. On the thread of `L`, which runs.
void clua_renew_interrupt(lua_State *L);

/// The signal that came last for `L` since clua_catch_interrupts, or 0.
int clua_last_interrupt(lua_State *L);

#endif
