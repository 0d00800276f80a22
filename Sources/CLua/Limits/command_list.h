// Commands of the shell that bodies wait for, and the lock under which a request to stop finds them. Nothing here raises.
#ifndef CLUA_COMMAND_LIST_H
#define CLUA_COMMAND_LIST_H

#include <sched.h>

#include "state.h"

// Contention is rare: only a thread that asks a body to stop ever competes with the state's own thread.
static inline void clua_lock_stop(clua_stop *stop) {
    while (atomic_exchange_explicit(&stop->is_locked, true, memory_order_acquire)) sched_yield();
}

static inline void clua_unlock_stop(clua_stop *stop) { atomic_store_explicit(&stop->is_locked, false, memory_order_release); }

/// Nanoseconds of the monotonic clock. Async-signal-safe.
int64_t clua_nanoseconds(void);

/// Makes the command belong to the running body, also if another body has added it. A request to stop the body ends the command, unless the
/// script writes to it through the descriptor `written` (-1 for none). Such a command is killed when the stopped body has ended.
void clua_add_command(clua_stop *stop, clua_command *command, int written);

/// Call it before the command is reaped: afterwards its number may belong to another process.
void clua_remove_command(clua_stop *stop, clua_command *command);

/// Ends the commands of the running body, which may be waiting for them inside a C function. The caller holds the lock.
void clua_end_commands(clua_stop *stop);

/// Kills the running body's commands that have not ended two seconds after SIGTERM. The caller holds the lock.
void clua_kill_commands(clua_stop *stop);

/// Releases the commands of the running body, which ends. They keep running, unless the body was stopped. On the thread of the body.
void clua_disown_commands(clua_stop *stop);

#endif
