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
typedef struct cio_stream cio_stream;
typedef struct cio_fetch cio_fetch;

/// A callback and its context. `release` is called once, after the last use of `context`.
typedef struct cio_callback {
    void (*call)(void *context);
    void (*release)(void *context);
    void *context;
} cio_callback;

/// Why a program is ended. With CIO_CANCEL, its processes get SIGTERM and, a grace later, SIGKILL; with CIO_INTERRUPT, SIGINT and, a grace later, the
/// signals of CIO_CANCEL.
typedef enum cio_cause { CIO_CANCEL = 1, CIO_INTERRUPT } cio_cause;

// MARK: the loop

/// Starts the thread, which receives no signals but faults. Returns NULL if the system refuses; `error` says why.
cio_loop *cio_loop_start(int *error);

/// Ends all present and future processes (see cio_process_end). Call it once.
void cio_loop_end_processes(cio_loop *loop, cio_cause cause);

/// Waits until the processes have gone and their callbacks were called. Call it once, after cio_loop_end_processes, and not on the loop's thread.
void cio_loop_await_processes(cio_loop *loop);

/// Cancels the timers, ends the processes, waits until they have gone, and joins the thread. Call it once, and not on the loop's thread.
void cio_loop_stop(cio_loop *loop);

/// Releases the loop. Call it after cio_loop_stop.
void cio_loop_release(cio_loop *loop);

// MARK: timers

/// Calls back after `delay` nanoseconds, never earlier, and then, unless `period` is 0, every `period` nanoseconds; missed calls are
/// skipped. With `is_limit`, the time during which Ctrl-Z has stopped this process does not count. Returns NULL, and releases `callback` at once, if the loop has stopped or memory runs out.
cio_timer *cio_timer_start(cio_loop *loop, uint64_t delay, uint64_t period, bool is_limit, cio_callback callback);

/// Prevents further calls. A call in progress may still be running.
void cio_timer_cancel(cio_timer *timer);

/// Releases the caller's reference. The timer keeps running.
void cio_timer_release(cio_timer *timer);

// MARK: GNU make's jobserver

/// A pipe or fifo with a token, one byte, for each place that its users share. A user has one place without a token. When the process exits, the
/// tokens that it has return. A process has one jobserver at most, which is never freed.
typedef struct cio_jobserver cio_jobserver;

#define CIO_MOST_TOKENS 4096
/// Programs have the pipe as this descriptor, to read, and the next one, to write.
#define CIO_JOBSERVER_DESCRIPTOR 3

/// Makes a pipe, or a fifo below TMPDIR, with so many tokens, at most CIO_MOST_TOKENS. Returns NULL after an error; `error` is its errno.
cio_jobserver *cio_jobserver_make(size_t count, bool is_fifo, int *error);

/// Uses a pipe that this process has inherited. Returns NULL with EBADF if these descriptors are no pipe.
cio_jobserver *cio_jobserver_open(int reading, int writing, int *error);

/// Uses a fifo.
cio_jobserver *cio_jobserver_open_fifo(const char *path, int *error);

/// The path of a fifo; NULL for a pipe.
const char *cio_jobserver_path(const cio_jobserver *jobserver);

/// Takes a token if there is one. Never blocks.
bool cio_jobserver_take(cio_jobserver *jobserver);

/// Returns a token. Never blocks.
void cio_jobserver_give(cio_jobserver *jobserver);

/// Makes a jobserver have so many tokens again, if none is in use besides those that were taken here.
void cio_jobserver_refill(cio_jobserver *jobserver, size_t count);

// MARK: processes

typedef enum cio_output_kind {
    CIO_CAPTURE,
    CIO_INHERIT,
    CIO_NULL,
    CIO_FILE,
    CIO_APPEND,  // to a file
    CIO_PIPE,    // see cio_process_pipe
    CIO_STDOUT,  // for stderr: the same as stdout
    CIO_LABEL,   // whole lines go to our own output, each with the program's label before it; a line of more than 64 KB in pieces
} cio_output_kind;

typedef struct cio_output {
    cio_output_kind kind;
    const char *path;  // CIO_FILE, created or truncated, and CIO_APPEND; relative to the caller's directory
} cio_output;

typedef enum cio_input_kind {
    CIO_TEXT,
    CIO_INPUT_NULL,
    CIO_INPUT_TERMINAL,    // the terminal of cio_terminal_lend
    CIO_INPUT_INHERIT,
    CIO_INPUT_FILE,
    CIO_INPUT_PIPE,        // see cio_process_pipe
    CIO_INPUT_DESCRIPTOR,  // the program gets a copy of a descriptor of the caller
} cio_input_kind;

/// A program to run. cio_process_start copies the strings.
typedef struct cio_program {
    const char *const *arguments;    // NULL-terminated; the first is the program, searched in PATH unless it has a slash
    const char *const *environment;  // NULL-terminated; "NAME=value" sets a variable, "NAME" removes one of the caller's
    const char *directory;           // NULL for the caller's
    cio_input_kind input_kind;
    const char *input;               // CIO_TEXT: the bytes; CIO_INPUT_FILE: the path, relative to the caller's directory
    size_t input_count;
    int input_descriptor;            // CIO_INPUT_DESCRIPTOR
    cio_output outputs[2];           // stdout, stderr; the same path twice is one file
    const char *label;               // for CIO_LABEL
    const cio_jobserver *jobserver;  // whose pipe the program has; NULL for none
    uint64_t timeout;                // nanoseconds until the program is ended; 0 for none
    uint64_t grace;                  // nanoseconds from one signal to the next when the program is ended
    bool has_terminal;               // it gets the terminal of cio_terminal_lend, also in place of an inherited terminal
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

/// Ends the program and all its descendants, also those in other process groups and sessions. `ended` is called as usual. Only the first call
/// counts.
void cio_process_end(cio_process *process, cio_cause cause);

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
    bool wanted_terminal;  // it was ended because it used the terminal without having it
    bool is_captured[2];
    const char *outputs[2];  // valid until the process is released
    size_t output_counts[2];
} cio_result;

cio_result cio_process_result(const cio_process *process);

/// Our end of a pipe to the program: of its standard descriptor 0, 1 or 2. The caller owns it from now on. -1 if there is no such pipe, or if the
/// caller has it already. Call it on the thread that has started the program.
int cio_process_pipe(cio_process *process, int standard);

/// Releases the caller's reference. The process keeps running.
void cio_process_release(cio_process *process);

/// The use that process groups have made of processors, with all descendants of their members.
typedef struct cio_usage {
    uint64_t time;    // nanoseconds of processor time, in steps of some milliseconds, with the children that have ended
    bool is_running;  // whether one of the processes runs or waits for a processor
} cio_usage;

/// Reads /proc, which takes about 10 µs for each process of the system. Returns false if that is impossible.
bool cio_groups_usage(const int *groups, size_t group_count, cio_usage *usage);

// MARK: streams

/// The part of a stream that one read takes, as the formats of Lua's `file:read`.
typedef enum cio_format {
    CIO_LINE,           // "l"
    CIO_LINE_WITH_END,  // "L"
    CIO_BYTES,          // a number of bytes; fewer at the end
    CIO_ALL,            // "a"
    CIO_NUMERAL,        // "n": the text, which may be no number
} cio_format;

typedef enum cio_take {
    CIO_TAKEN,
    CIO_TAKE_END,     // the pipe is empty, and no process can write to it
    CIO_TAKE_LATER,   // call again after `ready`, see cio_stream_watch
    CIO_TAKE_ROOM,    // nothing was taken, because it needs more room
    CIO_TAKE_LIMIT,   // the stream would have to keep more bytes than its limit
    CIO_TAKE_CLOSED,  // see cio_stream_close
    CIO_TAKE_MEMORY,  // memory has run out
} cio_take;

/// Makes a stream of a pipe's end, which it owns from now on. The stream keeps at most about `limit` bytes. The loop's thread calls `ready` once
/// for each cio_stream_watch. Returns NULL, with the descriptor closed and `ready` released, if memory runs out.
cio_stream *cio_stream_new(cio_loop *loop, int descriptor, bool writes, size_t limit, cio_callback ready);

/// Takes bytes as `format` asks, if the pipe has them; never waits. `stream` is a cio_stream. `wanted` is the number for CIO_BYTES. Copies at most
/// `room` bytes to `bytes`, and sets `taken` to their number, after CIO_TAKE_ROOM to the room that is needed, or after CIO_TAKE_LATER to the
/// revision of what the stream keeps, for cio_stream_watch. Returns a cio_take.
int cio_stream_take(void *stream, int format, size_t wanted, char *bytes, size_t room, size_t *taken);

/// Keeps what the pipe has for a later cio_stream_take, so that the program can write more; never waits. Returns CIO_TAKE_LATER, _END, _LIMIT,
/// _CLOSED or _MEMORY. Does nothing while the stream is watched.
cio_take cio_stream_keep(cio_stream *stream);

/// Writes as much as the pipe takes without waiting, and sets `written` to the number of bytes. Returns 0 if these are all, or an errno: EAGAIN if
/// the pipe is full, EPIPE if no process reads it. Sends no signal.
int cio_stream_write(cio_stream *stream, const char *bytes, size_t count, size_t *written);

#define CIO_REVISIONS 0x3fffffu
#define CIO_ANY_REVISION UINT32_MAX

/// Makes the loop call `ready` as soon as the pipe has bytes, or room for some, or has been closed at the other end. Calls `ready` at once if the
/// stream keeps something else than at `revision`, because another thread has read from the pipe. Returns false if the stream is closed or the loop
/// has stopped; `ready` is not called then.
bool cio_stream_watch(cio_stream *stream, unsigned revision);

/// Drops the bytes that are left, and closes the pipe soon. Calls `ready`. Further calls do nothing.
void cio_stream_close(cio_stream *stream);

bool cio_stream_is_closed(cio_stream *stream);

/// Returns another descriptor of the pipe, for a program that is to read it. Nothing else reads the stream from then on. Returns -1 with an errno, or
/// with 0 if the stream is closed or was read from. Close the stream once the program has started; after a failure, give the descriptor back with
/// cio_stream_take_back. Otherwise the caller closes the descriptor.
int cio_stream_lend(cio_stream *stream, int *error);
void cio_stream_take_back(cio_stream *stream, int lent);

/// Closes the stream, and releases the caller's reference.
void cio_stream_release(cio_stream *stream);

// MARK: HTTP

/// A request. cio_fetch_start copies the strings.
typedef struct cio_request {
    const char *url;                  // of http or https
    const char *method;
    const char *agent;                // the value of User-Agent
    const char *const *headers;       // NULL-terminated: "Name: value"
    bool has_type;                    // one of them is Content-Type
    const char *body;                 // NULL for none
    size_t body_count;
    bool has_file;                    // a file gets the body of a response with a status of 2xx, see cio_fetch_advance
    int64_t part;                     // the file has so many bytes already: the rest is asked for
    const char *validator;            // for a part: the entity tag, or the time of the last change
    size_t limit;                     // bytes of a body in memory
    uint64_t timeout;                 // nanoseconds for the whole; 0 for none
    uint64_t connect_timeout;         // nanoseconds
    const char *authorities;          // the file of certificates to trust; NULL for those of the system
    bool uses_netrc;
} cio_request;

/// How a request ended. Valid once cio_fetch_advance has returned true, until the request is released.
typedef struct cio_fetch_result {
    long status;          // of the last response; 0 for none
    const char *url;      // of the last response; NULL if memory has run out
    const char *problem;  // why there is no whole response; NULL if there is one
    bool is_transient;    // another attempt may succeed
    bool timed_out;
    bool exceeded_limit;
    bool is_ended;        // by cio_fetch_end, or with the loop's processes
    int64_t retry_after;  // seconds, from Retry-After; 0 if the response does not say
    int64_t file_count;   // the bytes of the file; it may have others behind these
    const char *headers;  // the status line and the headers of the last response
    size_t header_count;
    const char *body;     // NULL if it is empty, or in the file
    size_t body_count;
} cio_fetch_result;

/// Why requests are impossible: the library libcurl is missing, or too old. NULL if they are possible. The first call loads the library, which takes
/// some milliseconds. Call it before the functions below.
const char *cio_fetch_missing(void);

/// Starts a request. Calls `ready` when cio_fetch_advance has something to do. At most 10 redirects of GET, HEAD and POST are followed. Returns NULL, and
/// releases `ready`, if the loop has stopped or memory runs out.
cio_fetch *cio_fetch_start(cio_loop *loop, const cio_request *request, cio_callback ready);

/// Writes what has arrived to the file, on the calling thread, because a slow disk must not hold up the loop. Only one thread may call it. Returns whether
/// the request has ended: the response is complete, or the request has failed.
bool cio_fetch_advance(cio_fetch *fetch, int descriptor);

/// Ends a request, whatever it waits for.
void cio_fetch_end(cio_fetch *fetch);

const cio_fetch_result *cio_fetch_get_result(const cio_fetch *fetch);

/// Releases the caller's reference. The request continues.
void cio_fetch_release(cio_fetch *fetch);

// MARK: the terminal

/// Prepares lending the terminal to the program that is started next with `has_terminal`, one at a time. The program gets the foreground. The
/// terminal and its modes are taken back when the program has ended, or when it cannot be started. Returns 0; ENOTTY if this process has no
/// terminal; EPERM if this process is in the background.
int cio_terminal_lend(void);

/// For a process that is an application of the terminal. Makes Ctrl-Z stop the programs before this process, and `fg` continue them, unless SIGTSTP
/// has another handler or is ignored. Gives SIGQUIT its default effect, unless it is ignored. Call it before scripts run.
void cio_handle_keys(void);

/// Kills all programs and takes the terminal back, because this process is about to be ended by a signal. Async-signal-safe.
void cio_kill_programs(void);

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
