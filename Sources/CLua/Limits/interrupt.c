#define _POSIX_C_SOURCE 200809L  // sigaction, clock_gettime
#include "interrupt.h"

#include <errno.h>
#include <lua5.4/lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "Limits/stop_raising.h"
#include "state.h"
#include "stop.h"

static clua_state *_Atomic target;
static void (*_Atomic wake)(void *);  // ends a sleep of the target's thread
static void *_Atomic wake_context;
static void (*_Atomic before_death)(void);
static void (*_Atomic kill_programs)(void);
static _Atomic int64_t first_at;  // milliseconds on the monotonic clock
static struct sigaction previous_interrupt;
// The signals that ask a process to end. The kernel sends SIGHUP when a terminal is closed, and SIGQUIT for Ctrl-\.
static const int endings[] = {SIGTERM, SIGHUP, SIGQUIT};
enum { ENDING_COUNT = sizeof endings / sizeof *endings };
static struct sigaction previous_endings[ENDING_COUNT];
static bool catches;
static atomic_bool catches_terminate;  // atomic, because several runtimes may get work at once

// Set in `interrupt` beside the signal number while the signal has neither become an error nor been taken. Both share one word because the
// handler may run on a thread other than the state's.
enum { IS_PENDING = 1 << 8 };

// Signals within this many milliseconds count as one request. For example, `timeout` sends each signal twice.
enum { ONE_REQUEST = 200 };

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void stop(lua_State *L, lua_Debug *activation);

// The hook raises only inside Lua functions. The C functions that this library calls in protected mode interpret an error in their own way.
static void arm(lua_State *L) { lua_sethook(L, stop, CLUA_STOP_EVENTS, 1); }

// Hook: turns the signal into an error at the next instruction. A coroutine that is created meanwhile inherits the hook. If that
// coroutine's hook fires second, no signal is left to take.
static void stop(lua_State *L, lua_Debug *activation) {
    if (activation->event != LUA_HOOKCOUNT) return arm(L);  // see CLUA_STOP_EVENTS
    lua_sethook(L, NULL, 0, 0);
    clua_stop *stop = &clua_state_of(L)->stop;
    if (stop->requested != 0 || stop->raised != 0) clua_arm_stop(L);  // a stop also needs a hook
    // The error below replaces the error of a stop, so the stop must be raised again at once.
    if (clua_interrupt_is_pending(clua_state_of(L))) stop->grace_left = 0;
    if (!clua_is_in_finalizer(L)) return clua_raise_interrupt(L);
    if (!clua_interrupt_is_pending(clua_state_of(L))) return;
    arm(L);  // Lua catches what a finalizer raises, so the code around it must be interrupted, too
    lua_pushliteral(L, "interrupted!");
    lua_error(L);
}

void clua_raise_interrupt(lua_State *L) {
    if (clua_take_interrupt(L) == 0) return;
    luaL_where(L, 0);
    lua_pushliteral(L, "interrupted!");
    lua_concat(L, 2);
    lua_error(L);
}

// Runs in the signal handler. The manual allows lua_sethook there.
static void handle(int signal_number) {
    clua_state *state = target;
    if (state == NULL || state->stop.interrupt != 0 || signal_number == SIGQUIT) {
        if (signal_number != SIGQUIT && milliseconds() - first_at < ONE_REQUEST) return;
        if (kill_programs != NULL) kill_programs();
        if (before_death != NULL) before_death();
        struct sigaction by_default = {.sa_handler = SIG_DFL};
        if (state == NULL)
            clua_release_interrupts();
        else
            sigaction(signal_number, &by_default, NULL);
        raise(signal_number);  // takes effect when this function returns
        return;
    }
    first_at = milliseconds();
    state->stop.interrupt = signal_number | IS_PENDING;
    int error = errno;
    // The stop signal reaches the state's thread even if that thread blocks this signal. If the state has no thread now, the next thread
    // that is attached finds the signal pending.
    if (clua_is_on_thread(&state->stop)) {
        clua_allow_hooks(state->stop.running);
        arm(state->stop.running);
    } else {
        clua_signal_thread(&state->stop);
    }
    // The thread may have checked for a signal already, and be about to sleep.
    wake(wake_context);
    errno = error;
}

void clua_before_death(void (*function)(void)) { before_death = function; }
void clua_kill_programs_at_death(void (*function)(void)) { kill_programs = function; }

void clua_catch_interrupts(lua_State *L, void (*waker)(void *), void *context) {
    wake_context = context;
    wake = waker;
    clua_state *state = clua_state_of(L);
    state->stop.interrupt = 0;
    target = state;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGINT, &action, catches ? NULL : &previous_interrupt);
    catches = true;
}

bool clua_others_catch_interrupts(void) {
    struct sigaction action;
    if (sigaction(SIGINT, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0) return false;
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN && action.sa_handler != handle;
}

// This layer takes SIGTERM from any handler. SIGHUP asks many programs to read their settings again, and `nohup` ignores it. So this layer takes
// SIGHUP and SIGQUIT only if they would end the process, or if their handler restores the terminal, which `before_death` does as well.
static bool is_ending(int signal_number, const struct sigaction *previous) {
    if (signal_number == SIGTERM || previous->sa_handler == SIG_DFL) return true;
    return before_death != NULL && previous->sa_handler != SIG_IGN;
}

void clua_catch_terminate(void) {
    if (target == NULL || atomic_exchange(&catches_terminate, true)) return;
    struct sigaction action = {.sa_handler = handle};
    for (int i = 0; i < ENDING_COUNT; i++) {
        sigaction(endings[i], NULL, &previous_endings[i]);
        if (is_ending(endings[i], &previous_endings[i])) sigaction(endings[i], &action, NULL);
    }
}

void clua_release_interrupts(void) {
    if (!catches) return;
    sigaction(SIGINT, &previous_interrupt, NULL);
    for (int i = 0; catches_terminate && i < ENDING_COUNT; i++) sigaction(endings[i], &previous_endings[i], NULL);
    catches = catches_terminate = false;
    target = NULL;
}

void clua_forget_interrupts(clua_state *state) {
    if (target != state) return;
    // The second signal of one request may still arrive. The handler ignores it until that time is over.
    if (state->stop.interrupt != 0 && milliseconds() - first_at < ONE_REQUEST)
        target = NULL;
    else
        clua_release_interrupts();
}

bool clua_interrupt_is_pending(const clua_state *state) { return (state->stop.interrupt & IS_PENDING) != 0; }

// The hook stays set. It will find nothing to raise.
int clua_take_interrupt(lua_State *L) {
    atomic_int *interrupt = &clua_state_of(L)->stop.interrupt;
    if ((*interrupt & IS_PENDING) == 0) return 0;
    return atomic_fetch_and(interrupt, ~IS_PENDING) & ~IS_PENDING;
}

void clua_rearm_interrupt(lua_State *L) {
    if ((clua_state_of(L)->stop.interrupt & IS_PENDING) != 0) arm(L);
}

bool clua_interrupt_was_raised(lua_State *L) {
    int interrupt = clua_state_of(L)->stop.interrupt;
    return interrupt != 0 && (interrupt & IS_PENDING) == 0;
}

void clua_renew_interrupt(lua_State *L) {
    atomic_fetch_or(&clua_state_of(L)->stop.interrupt, IS_PENDING);
    arm(L);
}

int clua_last_interrupt(lua_State *L) { return clua_state_of(L)->stop.interrupt & ~IS_PENDING; }

static void *exit_later(void *argument) {
    long packed = (long)argument;
    sleep((unsigned)(packed >> 32));
    if (kill_programs != NULL) kill_programs();
    exit((int)(packed & 0xFFFFFFFF));
}

void clua_exit_later(int status, unsigned seconds) {
    pthread_t thread;
    long packed = (long)seconds << 32 | (unsigned)status;
    if (pthread_create(&thread, NULL, exit_later, (void *)packed) == 0) pthread_detach(thread);
}
