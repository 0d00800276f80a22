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

/// From now on, the command belongs to the body that runs now, also if another body has added it. A request to stop that body ends the command,
/// unless the script writes to it by the descriptor `written`; -1 for none. Such a command ends with the body.
void clua_add_command(clua_stop *stop, clua_command *command, int written);

/// To be called before the command is waited for, since its number may be another process's afterwards.
void clua_remove_command(clua_stop *stop, clua_command *command);

/// Ends the commands of the running body, which may be waiting for them inside a C function. The caller holds the lock.
void clua_end_commands(clua_stop *stop);

/// Kills those that were told to end and have not, after a while. The caller holds the lock.
void clua_kill_commands(clua_stop *stop);

/// The running body ends. Its commands go on, but are killed if the body was stopped. On the thread of the body.
void clua_disown_commands(clua_stop *stop);

#endif
