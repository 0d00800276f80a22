#define _GNU_SOURCE  // SIGRTMIN, syscall
#include "stop.h"

#include <lua5.4/lauxlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "Core/memory_raising.h"
#include "Core/traceback_raising.h"
#include "Limits/command_list.h"
#include "Limits/count_raising.h"
#include "Limits/stop_raising.h"
#include "allowance.h"
#include "interrupt.h"
#include "state.h"

enum {
    GRACE = 50000000,  // instructions that `__close` handlers may run in total before they are stopped as well
    STEP = 100000,     // instructions between later attempts to stop them, at first
};

// An instruction limit is checked after this many instructions, which each coroutine counts for itself.
enum { INSTRUCTIONS_PER_CHECK = 1000 };

static int stop_signal;
// The states attached to this thread, the latest first. The signal handler of the thread reads the list.
static _Thread_local clua_state *_Atomic thread_states;

static clua_stop *stop_of(lua_State *L) { return &clua_state_of(L)->stop; }

// MARK: raising

const char *clua_stop_words(int reason) {
    switch (reason) {
    case CLUA_STOP_TIMEOUT: return "timeout";
    case CLUA_STOP_MEMORY: return "memory limit exceeded";
    case CLUA_STOP_INSTRUCTIONS: return "instruction limit exceeded";
    default: return "interrupted";
    }
}

// Pushes the position of the innermost Lua function of the script as a string.
static void push_position(lua_State *L) {
    lua_Debug activation;
    for (int level = 0; lua_getstack(L, level, &activation); level++) {
        lua_getinfo(L, "Sl", &activation);
        if (activation.currentline > 0 && !clua_is_own_chunk(activation.source)) {
            lua_pushfstring(L, "%s:%d: ", activation.short_src, activation.currentline);
            return;
        }
    }
    lua_pushliteral(L, "");
}

static char *copy_top(lua_State *L) {
    char *text = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    return text;
}

// Records where the stop happens, because Lua calls no message handler for it.
static int describe(lua_State *L) {
    clua_stop *stop = stop_of(L);
    lua_State *stopped = lua_touserdata(L, 1);
    push_position(stopped);
    lua_pushfstring(stopped, "%s%s", lua_tostring(stopped, -1), clua_stop_words(stop->raised));
    stop->message = copy_top(stopped);
    lua_pop(stopped, 1);
    clua_push_traceback(L, stopped, 0);
    stop->traceback = copy_top(L);
    return 0;
}

static void hook(lua_State *L, lua_Debug *activation);

// Raises the memory error without the collection that a refused allocation causes.
static int raise_memory_error(lua_State *L) {
    lua_pushliteral(L, CLUA_NO_MEMORY);  // lua_error knows this string, and gives it the status LUA_ERRMEM
    return lua_error(L);
}

// Sets the hook for the next `count` instructions. Setting a hook takes time for each active function, and a stop may end many calls of
// `pcall` that each raise it again. So a hook with the same count stays as it is, and may be called early.
static void set_count_hook(lua_State *L, int count) {
    if (lua_gethook(L) == hook && lua_gethookmask(L) == LUA_MASKCOUNT && lua_gethookcount(L) == count) return;
    lua_sethook(L, hook, LUA_MASKCOUNT, count);
}

// While the body ends, code may run until the grace is over. All coroutines share the grace.
static void count_grace(lua_State *L) {
    ptrdiff_t left = stop_of(L)->grace_left;
    set_count_hook(L, left > INSTRUCTIONS_PER_CHECK ? INSTRUCTIONS_PER_CHECK : left > 1 ? (int)left : 1);
}

void clua_keep_stopping(lua_State *L) {
    stop_of(L)->grace_left -= INSTRUCTIONS_PER_CHECK;
    count_grace(L);
}

int clua_raise_stop(lua_State *L) {
    clua_stop *stop = stop_of(L);
    const clua_adoption *adoption = &clua_state_of(L)->adoption;
    if (stop->body == NULL && adoption->stopping != NULL) adoption->stopping(adoption->context);
    if (clua_is_in_finalizer(L)) {
        // Lua catches what a finalizer raises. Raise again as soon as it has.
        set_count_hook(L, 1);
        return raise_memory_error(L);
    }
    // Unwinding may use the memory that it needs.
    if (stop->raised == CLUA_STOP_MEMORY) clua_state_of(L)->limit_bytes = clua_state_of(L)->possible_bytes;
    bool is_first = stop->message == NULL;
    // Raise again after a while, in case a handler does not end or something swallows the error. There may be many handlers, so the time
    // that each gets becomes shorter.
    int count = is_first ? GRACE : stop->next_step;
    stop->next_step = is_first ? STEP : count > 1 ? count / 2 : 1;
    stop->grace_left = count;
    count_grace(L);
    if (is_first && lua_checkstack(L, LUA_MINSTACK)) {
        lua_pushcfunction(L, describe);
        lua_pushlightuserdata(L, L);
        if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
    }
    return raise_memory_error(L);
}

static void count_instructions(lua_State *L) { set_count_hook(L, INSTRUCTIONS_PER_CHECK); }

// Counts `count` instructions. Returns whether that was too many.
static bool exceeds_limit(clua_stop *stop, ptrdiff_t count) {
    if (stop->instructions_left == CLUA_NO_INSTRUCTION_LIMIT) return false;
    stop->instructions_left -= count;
    bool has_shared = clua_allowance_spend(stop->shared_instructions, (size_t)count);
    return stop->instructions_left < 0 || !has_shared;
}

void clua_limit_instructions(lua_State *L, int64_t count, struct clua_allowance *shared) {
    clua_stop *stop = stop_of(L);
    stop->instructions_left = count < CLUA_NO_INSTRUCTION_LIMIT ? count : CLUA_NO_INSTRUCTION_LIMIT - 1;
    stop->shared_instructions = shared;
    clua_allowance_spend(shared, INSTRUCTIONS_PER_CHECK);
    count_instructions(L);
}

void clua_keep_counting(lua_State *L) {
    if (lua_gethook(L) == NULL) count_instructions(L);
}

void clua_count_coroutine(lua_State *L) {
    if (stop_of(L)->instructions_left != CLUA_NO_INSTRUCTION_LIMIT) clua_count(L, INSTRUCTIONS_PER_CHECK);
}

static void remove_hook(lua_State *L) {
    if (stop_of(L)->instructions_left != CLUA_NO_INSTRUCTION_LIMIT)
        count_instructions(L);
    else
        lua_sethook(L, NULL, 0, 0);
    clua_rearm_interrupt(L);  // an interrupt also needs a hook
}

// Takes the request to stop the running code, if there is one. Otherwise counts `count` instructions.
static void begin_stop(clua_stop *stop, ptrdiff_t count) {
    stop->raised = atomic_exchange(&stop->requested, 0);
    if (stop->raised == 0 && exceeds_limit(stop, count)) stop->raised = CLUA_STOP_INSTRUCTIONS;
}

static void hook(lua_State *L, lua_Debug *activation) {
    if (activation->event != LUA_HOOKCOUNT) return clua_arm_stop(L);  // see CLUA_STOP_EVENTS
    clua_stop *stop = stop_of(L);
    if (stop->raised == 0) {
        int count = lua_gethookcount(L);
        // Remove the hook before reading the reason: a later request sets the hook again.
        remove_hook(L);
        begin_stop(stop, count);
        if (stop->raised == 0) return;  // the request was meant for a body that has ended
    } else if (stop->message != NULL && !clua_is_in_finalizer(L)) {
        stop->grace_left -= lua_gethookcount(L);
        if (stop->grace_left > 0) return count_grace(L);
    }
    clua_raise_stop(L);
}

void clua_look(lua_State *L) {
    clua_stop *stop = stop_of(L);
    ptrdiff_t count = CLUA_STEPS_PER_LOOK - stop->steps_left;
    stop->steps_left = CLUA_STEPS_PER_LOOK;
    if (stop->raised == 0) {
        begin_stop(stop, count);
        if (stop->raised != 0) clua_raise_stop(L);
        clua_raise_interrupt(L);
        return;
    }
    // The body is ending. Code that runs meanwhile, such as a `__close` handler, uses up the grace.
    stop->grace_left -= count;
    if (stop->grace_left <= 0) clua_raise_stop(L);
}

void clua_arm_stop(lua_State *L) { lua_sethook(L, hook, CLUA_STOP_EVENTS, 1); }

bool clua_is_stop(lua_State *L, int status) { return status == LUA_ERRMEM && stop_of(L)->raised != 0; }

bool clua_stop_at_limit(clua_state *state, size_t size) {
    clua_stop *stop = &state->stop;
    if (stop->raised == CLUA_STOP_MEMORY) {
        state->limit_bytes = state->possible_bytes;
        return false;
    }
    if (stop->refused_size != size) {  // Lua collects garbage and tries once more
        stop->refused_size = size;
        return false;
    }
    stop->refused_size = 0;
    stop->raised = CLUA_STOP_MEMORY;
    stop->grace_left = STEP;
    // The error that Lua raises when it gets no block says nothing about the place. So a small block is allocated, and the next instruction raises
    // the stop.
    bool is_small = size <= state->limit_bytes / 4;
    state->limit_bytes = is_small ? state->limit_bytes + size : state->possible_bytes;
    lua_sethook(atomic_load(&stop->running), hook, LUA_MASKCOUNT, is_small ? 1 : STEP);
    return is_small;
}

// MARK: requests from outside

// Makes the running code of the state notice a request or an interrupt, or stop again. Async-signal-safe.
static void set_hooks(clua_state *state) {
    clua_stop *stop = &state->stop;
    lua_State *L = atomic_load(&stop->running);
    // Setting a hook takes time for each active function. With very many of them, it takes longer than the time until the next signal, and Lua would
    // never get on. So a hook that is set stays for a while: Lua finds it at its next instruction.
    int64_t begin = clua_nanoseconds();
    bool is_armed = lua_gethook(L) == hook && lua_gethookmask(L) == CLUA_STOP_EVENTS;
    if (is_armed && begin < stop->quiet_until) return;
    clua_rearm_interrupt(L);
    bool is_requested = atomic_load(&stop->requested) != 0;
    bool is_pending = is_requested || stop->raised != 0 || clua_interrupt_is_pending(state);
    bool were_disallowed = is_pending && clua_allow_hooks(L);
    if (is_requested || (were_disallowed && stop->raised != 0)) clua_arm_stop(L);
    int64_t end = clua_nanoseconds();
    stop->quiet_until = end + (end - begin);
}

static void handle_signal(int signal_number) {
    (void)signal_number;
    for (clua_state *state = thread_states; state != NULL; state = state->stop.next_on_thread) set_hooks(state);
}

static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static void install_handler(void) {
    struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_RESTART};
    sigaction(clua_get_stop_signal(), &action, NULL);
    clua_find_hook_flag();
}

void clua_set_stop_signal(int signal_number) { stop_signal = signal_number; }
int clua_get_stop_signal(void) { return stop_signal != 0 ? stop_signal : SIGRTMIN + 6; }

static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

bool clua_is_on_thread(const clua_stop *stop) { return atomic_load(&stop->thread) == this_thread(); }

// Uses the kernel's number of the thread, because the thread may end at any moment. A signal to a thread that has ended does nothing here;
// pthread_kill would be undefined.
void clua_signal_thread(const clua_stop *stop) {
    pid_t thread = atomic_load(&stop->thread);
    if (thread != 0) syscall(SYS_tgkill, getpid(), thread, clua_get_stop_signal());
}

// Lets the calling thread receive the stop signal. Does so only once: a thread that enters and leaves a state many times saves the system call.
static void receive_stop_signal(void) {
    static _Thread_local bool receives;
    if (receives) return;
    receives = true;
    pthread_once(&handler_once, install_handler);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, clua_get_stop_signal());
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void clua_attach_thread(lua_State *L) {
    receive_stop_signal();
    clua_state *state = clua_state_of(L);
    state->stop.next_on_thread = thread_states;
    thread_states = state;
    clua_lock_stop(&state->stop);
    atomic_store(&state->stop.thread, this_thread());
    clua_unlock_stop(&state->stop);
    // An earlier request found no thread to send a signal to.
    lua_State *running = atomic_load(&state->stop.running);
    if (atomic_load(&state->stop.requested) != 0) clua_arm_stop(running);
    clua_rearm_interrupt(running);
}

void *clua_thread_object(void) {
    clua_state *state = thread_states;
    return state != NULL ? state->object : NULL;
}

void clua_detach_thread(lua_State *L) {
    clua_state *state = clua_state_of(L);
    clua_lock_stop(&state->stop);
    atomic_store(&state->stop.thread, 0);
    clua_unlock_stop(&state->stop);
    if (thread_states == state) {
        thread_states = state->stop.next_on_thread;
        return;
    }
    for (clua_state *other = thread_states; other != NULL; other = other->stop.next_on_thread)
        if (other->stop.next_on_thread == state) other->stop.next_on_thread = state->stop.next_on_thread;
}

// ThreadSanitizer delays signals to a thread inside an uninstrumented library such as Lua. It does not see that library's reads either, so
// the hooks can be set from another thread.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { sets_hooks_from_outside = true };
#else
enum { sets_hooks_from_outside = false };
#endif
#else
enum { sets_hooks_from_outside = false };
#endif

// Makes the state's thread set the hooks, if the state has a thread. The caller holds the lock.
static void rouse(clua_stop *stop) {
    if (atomic_load(&stop->thread) == 0) return;
    if (sets_hooks_from_outside || clua_is_on_thread(stop))
        set_hooks(clua_state_of(atomic_load(&stop->running)));
    else
        clua_signal_thread(stop);
}

// The caller holds the lock.
static void request(clua_stop *stop, clua_stop_reason reason) {
    atomic_store(&stop->requested, reason);
    // In this order: the body may go on as soon as its command has ended, and must find the hook then.
    rouse(stop);
    clua_end_commands(stop);
}

// Whether the state is running `body`. If `body` is a call of the host, code inside the call counts as well, but code that runs while the call waits
// does not. The caller holds the lock.
static bool is_running(const clua_stop *stop, const void *body) {
    if (!clua_is_body_of_call(body)) return stop->body == body;
    const void *inner = stop->body;
    const clua_suspended_body *outer = stop->suspended;
    for (; inner != body && inner != NULL && outer != NULL; outer = outer->outer) inner = outer->body;
    return inner == body;
}

void clua_request_stop(lua_State *L, const void *body, clua_stop_reason reason) {
    clua_stop *stop = stop_of(L);
    clua_lock_stop(stop);
    if (is_running(stop, body)) request(stop, reason);
    clua_unlock_stop(stop);
}

bool clua_repeat_stop(lua_State *L, const void *body) {
    clua_stop *stop = stop_of(L);
    clua_lock_stop(stop);
    bool runs = is_running(stop, body);
    int reason = atomic_load(&stop->requested);
    if (runs && reason != 0) {
        request(stop, reason);
    } else if (runs && atomic_load(&stop->raised) != 0) {
        clua_kill_commands(stop);
        rouse(stop);  // the body may be inside a finalizer
    }
    clua_unlock_stop(stop);
    return runs;
}

bool clua_has_body(lua_State *L, const void *body) {
    clua_stop *stop = stop_of(L);
    clua_lock_stop(stop);
    bool has = stop->body == body;
    for (const clua_suspended_body *outer = stop->suspended; outer != NULL && !has; outer = outer->outer) has = outer->body == body;
    clua_unlock_stop(stop);
    return has;
}

bool clua_give_up_body(lua_State *L, const void *body) {
    clua_stop *stop = stop_of(L);
    clua_lock_stop(stop);
    bool gives_up = stop->body == body && atomic_load(&stop->requested) != 0 && !stop->is_given_up;
    if (gives_up) stop->is_given_up = true;
    clua_unlock_stop(stop);
    return gives_up;
}

void clua_request_end(lua_State *L) {
    clua_stop *stop = stop_of(L);
    clua_lock_stop(stop);
    request(stop, CLUA_STOP_INTERRUPTED);
    clua_unlock_stop(stop);
}

// The hook stays set. It will find nothing to raise.
void clua_withdraw_request(lua_State *L) { atomic_store(&stop_of(L)->requested, 0); }

void clua_stop_here(lua_State *L, clua_stop_reason reason) {
    clua_stop *stop = stop_of(L);
    if (stop->raised == 0) stop->raised = reason;
}

// MARK: the running body

// The running body and the request to it change together under the lock, so that a request never reaches the wrong body.
void clua_begin_body(lua_State *L, const void *body, clua_suspended_body *suspended) {
    clua_state *state = clua_state_of(L);
    clua_stop *stop = &state->stop;
    suspended->raised = atomic_load_explicit(&stop->raised, memory_order_relaxed);
    suspended->message = stop->message;
    suspended->traceback = stop->traceback;
    suspended->limit_bytes = state->limit_bytes;
    suspended->instructions_left = stop->instructions_left;
    suspended->shared_instructions = stop->shared_instructions;
    clua_lock_stop(stop);
    suspended->body = stop->body;
    suspended->requested = atomic_load_explicit(&stop->requested, memory_order_relaxed);
    suspended->grace_left = stop->grace_left;
    suspended->next_step = stop->next_step;
    suspended->is_given_up = stop->is_given_up;
    suspended->outer = stop->suspended;
    stop->body = body;
    atomic_store_explicit(&stop->requested, 0, memory_order_relaxed);
    stop->is_given_up = false;
    stop->suspended = suspended;
    clua_unlock_stop(stop);
    atomic_store_explicit(&stop->raised, 0, memory_order_relaxed);
    stop->message = stop->traceback = NULL;
    stop->instructions_left = CLUA_NO_INSTRUCTION_LIMIT;
    stop->shared_instructions = NULL;
    state->limit_bytes = state->state_limit;
}

bool clua_end_body(lua_State *L, const clua_suspended_body *suspended) {
    clua_state *state = clua_state_of(L);
    clua_stop *stop = &state->stop;
    if (stop->commands != NULL) clua_disown_commands(stop);
    if (stop->message != NULL) free(stop->message);
    if (stop->traceback != NULL) free(stop->traceback);
    stop->instructions_left = suspended->instructions_left;
    stop->shared_instructions = suspended->shared_instructions;
    remove_hook(L);
    atomic_store_explicit(&stop->raised, suspended->raised, memory_order_relaxed);
    stop->message = suspended->message;
    stop->traceback = suspended->traceback;
    stop->grace_left = suspended->grace_left;
    stop->next_step = suspended->next_step;
    state->limit_bytes = suspended->limit_bytes;
    clua_lock_stop(stop);
    bool was_given_up = stop->is_given_up;
    stop->body = suspended->body;
    atomic_store_explicit(&stop->requested, suspended->requested, memory_order_relaxed);
    stop->is_given_up = suspended->is_given_up;
    stop->suspended = suspended->outer;
    clua_unlock_stop(stop);
    if (suspended->requested != 0)
        clua_arm_stop(L);
    else if (suspended->raised != 0)
        count_grace(L);
    return was_given_up;
}

void clua_stop_init(clua_stop *stop, lua_State *L) {
    atomic_init(&stop->running, L);
    stop->steps_left = CLUA_STEPS_PER_LOOK;
    stop->instructions_left = CLUA_NO_INSTRUCTION_LIMIT;
}

void clua_stop_free(clua_stop *stop) {
    free(stop->message);
    free(stop->traceback);
}
