// Internal to this folder: starting a program, on the calling thread.
#ifndef CIO_SPAWN_H
#define CIO_SPAWN_H

#include <signal.h>
#include <spawn.h>
#include <sys/types.h>

#include "CIO.h"
#include "groups.h"

/// The parent's side of a child. -1 stands for a missing descriptor.
typedef struct child {
    pid_t pid;
    int exit;        // a pidfd: readable once the child has ended
    int input;       // the parent's ends of the pipes
    int outputs[2];
    int labels[2];   // those of CIO_LABEL
    int pipes[3];    // those that the caller of cio_process_pipe gets
} child;

/// Starts the program with the mark of `group`, and makes it the leader. Returns false, fills `error`, and leaves nothing behind if the program cannot be started.
bool spawn(const cio_program *program, group *group, child *child, cio_start_error *error);

/// Attributes of a child in a process group of its own, with no signal blocked, and with the default effect for the signals of `reset`. Destroy
/// them with posix_spawnattr_destroy. Returns 0 or an errno.
int child_attributes(const sigset_t *reset, posix_spawnattr_t *attributes);

/// Whether a child has exited: 1 as a zombie until `reap_child`, 0 not yet, -1 if another part of this process has waited for it. The status is then neither
/// an exit nor a signal. The options are those of waitid besides WEXITED and WNOWAIT.
int look_at_child(pid_t pid, int options, int *status);

/// Waits for a child, whose number the system may use again afterwards.
void reap_child(pid_t pid);

/// Opens a pidfd for a new child; kills the child's group if this process has no descriptor left. Returns 0 or an errno.
int watch_child(pid_t pid, int *pidfd);

void close_descriptor(int *descriptor);

/// Closes our ends of the pipes to the child.
void close_child(child *child);

#endif
