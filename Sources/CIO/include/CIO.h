// One thread with a libuv loop: timers and child processes. Knows nothing of Lua or operations.
//
// Every function here may be called from every thread and does not wait for the loop, unless it says otherwise. Callbacks are called on
// the loop's thread, one at a time, and must not block.
#ifndef CIO_H
#define CIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cio_loop cio_loop;
typedef struct cio_timer cio_timer;
typedef struct cio_process cio_process;

/// What to call, and with what. `release` is called once, when neither will be called any more.
typedef struct cio_callback {
    void (*call)(void *context);
    void (*release)(void *context);
    void *context;
} cio_callback;

// MARK: the loop

/// Starts the thread, which receives no signals. NULL when the system refuses; `error` says why.
cio_loop *cio_loop_start(int *error);

/// Ends the processes that there are and those to come (see cio_process_end). To be called once.
void cio_loop_end_processes(cio_loop *loop);

/// Cancels the timers, ends the processes, waits until they have gone, and joins the thread. To be called once, not on the loop's
/// thread.
void cio_loop_stop(cio_loop *loop);

/// Gives back what cio_loop_start returned, after cio_loop_stop.
void cio_loop_release(cio_loop *loop);

// MARK: timers

/// Calls back after `delay` nanoseconds, not earlier, and, with a `period` other than 0, each so many nanoseconds after that; a call that
/// is late is not made up for. NULL when the loop has been stopped or memory has run out; then `callback` is released at once.
cio_timer *cio_timer_start(cio_loop *loop, uint64_t delay, uint64_t period, cio_callback callback);

/// No further calls; one that is under way may still be going on.
void cio_timer_cancel(cio_timer *timer);

/// Gives back what cio_timer_start returned. The timer goes on.
void cio_timer_release(cio_timer *timer);

// MARK: processes

typedef enum cio_output_kind { CIO_CAPTURE, CIO_INHERIT, CIO_NULL, CIO_FILE } cio_output_kind;

typedef struct cio_output {
    cio_output_kind kind;
    const char *path;  // CIO_FILE: emptied, or made; in the caller's directory
} cio_output;

/// A program to run. Nothing of this is needed after cio_process_start.
typedef struct cio_program {
    const char *const *arguments;    // ends with NULL; the first is the program, looked for in PATH when it has no slash
    const char *const *environment;  // ends with NULL: "NAME=value" sets, "NAME" removes a variable of the caller's
    const char *directory;           // NULL: the caller's
    const char *input;               // standard input; NULL: there is none
    size_t input_count;
    cio_output outputs[2];           // stdout, stderr; the same path twice is one file
    uint64_t timeout;                // nanoseconds after which it is ended; 0: none
} cio_program;

/// What failed, when a program could not be started.
typedef struct cio_start_error {
    int error;         // as in errno
    const char *path;  // the file or the directory of the cio_program that is to blame; NULL: the program itself
} cio_start_error;

/// Starts a program in a process group of its own, with default signals and no descriptors but the standard ones. `ended` is called
/// when it has ended and everybody has closed its captured output. NULL when it could not be started; then `ended` is released at once.
cio_process *cio_process_start(cio_loop *loop, const cio_program *program, cio_callback ended, cio_start_error *error);

/// Ends its group: SIGTERM, and SIGKILL for who is left after `CIO_GRACE` nanoseconds. `ended` is called as ever.
void cio_process_end(cio_process *process);

#define CIO_GRACE 2000000000ull

/// Sends a signal to its group. 0, or what is wrong, as in errno: ESRCH where it has ended.
int cio_process_signal(cio_process *process, int signal_number);

int cio_process_id(const cio_process *process);

/// How it ended. To be asked for from within `ended` on.
typedef struct cio_result {
    int status;         // of one that exited; otherwise -1
    int signal_number;  // that killed it; otherwise 0
    bool timed_out;
    bool lacked_memory;  // for what it wrote; it was ended
    bool is_captured[2];
    const char *outputs[2];  // as long as the process is not released
    size_t output_counts[2];
} cio_result;

cio_result cio_process_result(const cio_process *process);

/// Gives back what cio_process_start returned. The process goes on.
void cio_process_release(cio_process *process);

/// "TERM" for SIGTERM; NULL for a number that has no name.
const char *cio_signal_name(int signal_number);

/// What errno `error` means, in the words of the C library; never NULL.
const char *cio_error_text(int error);

#endif
