// Internal to this folder: the processes of each program that runs.
#ifndef CIO_GROUPS_H
#define CIO_GROUPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/// The processes of a program: its process group, and descendants that have left it, as after `setsid`. The program and its descendants have a
/// variable with the group's mark in their environment.
typedef struct group {
    atomic_uint mark;  // 0: not in use
    _Atomic(pid_t) leader;  // 0: the program has not started
} group;

/// A group for a program that is about to start. NULL without memory. From any thread, like the functions below.
group *group_reserve(void);
void group_release(group *group);

enum { MARK_SIZE = 80 };

/// Writes the variable of the group, "NAME=value". Returns `text`.
char *group_variable(const group *group, char text[MARK_SIZE]);

/// Sends a signal to the process groups of all programs. Async-signal-safe.
void groups_signal(int signal_number);

typedef void group_visitor(const group *group, pid_t process, bool has_left, void *context);

/// Calls `visit` for each living process of the programs; `has_left` tells whether the process is in another process group. Async-signal-safe.
/// Returns false if `/proc` shows no process. Takes some microseconds for each process of the system.
bool groups_visit(group_visitor *visit, void *context);

/// Whether a process belongs to one of the programs. Async-signal-safe.
bool groups_have(pid_t process);

/// Whether a process ignores a signal. Shells start their background processes so for SIGINT.
bool process_ignores(pid_t process, int signal_number);

#endif
