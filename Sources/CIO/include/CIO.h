// One thread with a libuv loop, for timers and child processes. It knows nothing of Lua or operations.
//
// Unless noted otherwise, every function here may be called from any thread and does not wait for the loop. Callbacks run on the loop's
// thread, one at a time, and must not block.
#ifndef CIO_H
#define CIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cio_loop cio_loop;
typedef struct cio_timer cio_timer;
typedef struct cio_process cio_process;

/// A callback and its context. `release` is called once, after the last use of `context`.
typedef struct cio_callback {
    void (*call)(void *context);
    void (*release)(void *context);
    void *context;
} cio_callback;

// MARK: the loop

/// Starts the thread, which receives no signals but faults. Returns NULL if the system refuses; `error` says why.
cio_loop *cio_loop_start(int *error);

/// Ends all present and future processes (see cio_process_end). Call it once.
void cio_loop_end_processes(cio_loop *loop);

/// Waits until the processes have gone and their callbacks were called. Call it once, after cio_loop_end_processes, and not on the loop's thread.
void cio_loop_await_processes(cio_loop *loop);

/// Cancels the timers, ends the processes, waits until they have gone, and joins the thread. Call it once, and not on the loop's thread.
void cio_loop_stop(cio_loop *loop);

/// Releases the loop. Call it after cio_loop_stop.
void cio_loop_release(cio_loop *loop);

// MARK: timers

/// Calls back after `delay` nanoseconds, never earlier, and then, unless `period` is 0, every `period` nanoseconds; missed calls are
/// skipped. Returns NULL, and releases `callback` at once, if the loop has stopped or memory runs out.
cio_timer *cio_timer_start(cio_loop *loop, uint64_t delay, uint64_t period, cio_callback callback);

/// Prevents further calls. A call in progress may still be running.
void cio_timer_cancel(cio_timer *timer);

/// Releases the caller's reference. The timer keeps running.
void cio_timer_release(cio_timer *timer);

// MARK: processes

typedef enum cio_output_kind { CIO_CAPTURE, CIO_INHERIT, CIO_NULL, CIO_FILE } cio_output_kind;

typedef struct cio_output {
    cio_output_kind kind;
    const char *path;  // CIO_FILE: created or truncated; relative to the caller's directory
} cio_output;

/// A program to run. cio_process_start copies the strings.
typedef struct cio_program {
    const char *const *arguments;    // NULL-terminated; the first is the program, searched in PATH unless it has a slash
    const char *const *environment;  // NULL-terminated; "NAME=value" sets a variable, "NAME" removes one of the caller's
    const char *directory;           // NULL for the caller's
    const char *input;               // standard input; NULL for none
    size_t input_count;
    cio_output outputs[2];           // stdout, stderr; the same path twice is one file
    uint64_t timeout;                // nanoseconds until the program is ended; 0 for none
    size_t capture_limit;            // bytes of each captured output, at most SIZE_MAX / 2; with more, the program is ended
} cio_program;

/// Why a program could not be started.
typedef struct cio_start_error {
    int error;         // an errno
    const char *path;  // the file or directory of the cio_program at fault; NULL for the program itself
} cio_start_error;

/// Starts a program in a process group of its own, with default signals and only the standard descriptors. Calls `ended` once the program
/// has ended and no process has its captured output open; `*started` is the process by then. Returns false, and releases `ended` at once, if
/// the program cannot be started.
bool cio_process_start(cio_loop *loop, const cio_program *program, cio_callback ended, cio_process **started, cio_start_error *error);

/// Ends the process group with SIGTERM, and after `CIO_GRACE` nanoseconds with SIGKILL. `ended` is called as usual.
void cio_process_end(cio_process *process);

#define CIO_GRACE 2000000000ull

/// Sends a signal to the process group. Returns 0 or an errno: ESRCH if it has ended.
int cio_process_signal(cio_process *process, int signal_number);

int cio_process_id(const cio_process *process);

/// How a process ended. Valid once `ended` has been called.
typedef struct cio_result {
    int status;         // exit status; -1 if it did not exit
    int signal_number;  // the signal that killed it; otherwise 0
    bool timed_out;
    bool lacked_memory;  // it was ended because memory for its output ran out
    bool exceeded_limit;  // it was ended because it wrote more than capture_limit
    bool is_captured[2];
    const char *outputs[2];  // valid until the process is released
    size_t output_counts[2];
} cio_result;

cio_result cio_process_result(const cio_process *process);

/// Releases the caller's reference. The process keeps running.
void cio_process_release(cio_process *process);

// MARK: worker processes

/// A process that serves this one. It has its ends of the sockets as descriptors 3 and 4.
typedef struct cio_worker {
    int process;
    int pidfd;    // names the process, even if other code waits for children
    int socket;   // for messages: a stream
    int control;  // for packets
} cio_worker;

/// Starts a program on the calling thread, and looks for it in PATH if its name has no slash. Besides its sockets, the program has only the
/// standard descriptors of this process; with `is_silent`, 0 and 1 are `/dev/null`. `arguments` ends with NULL. Returns 0 or an errno; after an
/// errno, `worker` is meaningless.
int cio_start_worker(const char *const *arguments, bool is_silent, cio_worker *worker);

/// How a worker process has ended: its exit status, or -1 and the number of a signal. -1 and 0 if the system has forgotten the end, because this
/// program ignores SIGCHLD, or waits for all its children.
typedef struct cio_end {
    int status, signal_number;
} cio_end;

/// Kills a worker process. Does nothing if it has ended.
void cio_kill_worker(int pidfd);

/// Whether a worker process has ended. One system call.
bool cio_worker_has_ended(int pidfd);

/// Waits until a worker process ends, at most so long; then kills the process, and waits again. Returns whether it has ended by itself. Closes
/// the descriptor.
bool cio_await_worker(int pidfd, int milliseconds, cio_end *end);

/// "TERM" for SIGTERM. NULL for a number without a name.
const char *cio_signal_name(int signal_number);

/// The C library's text for an errno. Never NULL.
const char *cio_error_text(int error);

// MARK: folders

/// Removes a folder and everything in it, as far as that is possible. Any thread.
void cio_remove_folder(const char *path);

#endif
