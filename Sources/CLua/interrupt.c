#define _POSIX_C_SOURCE 200809L  // sigaction, clock_gettime
#include "interrupt.h"

#include <errno.h>
#include <lua5.4/lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static lua_State *_Atomic target;
static void (*_Atomic wake)(void *);  // ends a sleep of the target's thread
static void *_Atomic wake_context;
static atomic_int pending, last;
static _Atomic int64_t first_at;  // milliseconds, of some clock
static struct sigaction previous_interrupt, previous_terminate;
static bool catches_terminate;

// Signals that come within this many milliseconds are one request: `timeout`, for one, sends each twice.
enum { ONE_REQUEST = 200 };

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Hook: turns the signal into an error at the next instruction.
static void stop(lua_State *L, lua_Debug *activation) {
    (void)activation;
    lua_sethook(L, NULL, 0, 0);
    pending = 0;
    luaL_error(L, "interrupted!");
}

static void arm(lua_State *L) { lua_sethook(L, stop, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1); }

// In the signal's handler: lua_sethook may be called there, as the manual says.
static void handle(int signal_number) {
    if (last != 0) {
        if (milliseconds() - first_at < ONE_REQUEST) return;
        struct sigaction by_default = {.sa_handler = SIG_DFL};
        sigaction(signal_number, &by_default, NULL);
        raise(signal_number);  // acts when this function returns
        return;
    }
    first_at = milliseconds();
    pending = last = signal_number;
    lua_State *L = target;
    if (L == NULL) return;
    arm(L);
    // It may have looked for a signal, and be about to sleep.
    int error = errno;
    wake(wake_context);
    errno = error;
}

void clua_catch_interrupts(lua_State *L, void (*waker)(void *), void *context) {
    bool is_first = target == NULL;
    wake_context = context;
    wake = waker;
    target = L;
    pending = last = 0;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGINT, &action, is_first ? &previous_interrupt : NULL);
}

void clua_catch_terminate(void) {
    if (target == NULL || catches_terminate) return;
    catches_terminate = true;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGTERM, &action, &previous_terminate);
}

void clua_release_interrupts(void) {
    if (target == NULL) return;
    sigaction(SIGINT, &previous_interrupt, NULL);
    if (catches_terminate) sigaction(SIGTERM, &previous_terminate, NULL);
    catches_terminate = false;
    target = NULL;
}

int clua_take_interrupt(void) {
    int signal_number = atomic_exchange(&pending, 0);
    if (signal_number != 0) lua_sethook(target, NULL, 0, 0);
    return signal_number;
}

void clua_rearm_interrupt(lua_State *L) {
    if (pending != 0 && L == target) arm(L);
}

int clua_last_interrupt(void) { return last; }
