// Internal to this folder: the terminal, and stopping the whole process with its programs, as job control does.
#ifndef CIO_JOBS_H
#define CIO_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/// Whether this process has a controlling terminal.
bool terminal_exists(void);

/// The descriptor of the terminal that cio_terminal_lend has prepared.
int terminal_descriptor(void);

/// Records the process group that has the terminal now.
void terminal_is_lent(pid_t leader);

/// Gives this process the terminal again, with the modes that it had. From any thread.
void terminal_take_back(void);

/// Stops the programs and this process, as Ctrl-Z does, and continues the programs afterwards. Async-signal-safe.
void stop_job(void);

/// The nanoseconds for which the process has been stopped: where a time limit begins to count them.
uint64_t stopped_so_far(void);

/// The nanoseconds by which a time limit must be extended, because the process was stopped meanwhile. Adds them to `counted`.
uint64_t stopped_time(uint64_t *counted);

#endif
