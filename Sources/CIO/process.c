#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ending.h"
#include "jobs.h"
#include "label.h"
#include "loop.h"
#include "spawn.h"

enum {
    FIRST_BLOCK = 4096, LEAST_FREE = 1024,  // bytes of a block, and in it before it grows
    WATCH = 100,            // milliseconds between two checks whether a program wants the terminal
    LAST_WORDS = 100,       // milliseconds after the last process until outputs held open by others are abandoned
    GIVEN_UP = 5000,        // milliseconds after SIGKILL until a process that the system does not end is abandoned
};

/// The captured output of a process, or one that is passed on with a label.
typedef struct output {
    uv_pipe_t pipe;
    bool is_captured, is_open, is_full;  // full: closes as soon as the program has got its signal
    label *label;  // until it has ended
    cio_process *process;
    char *bytes;
    size_t count, capacity;
} output;

struct cio_process {
    atomic_int references;
    atomic_int asked_to_end;    // the cause; otherwise 0
    atomic_bool was_signalled;  // by the caller
    cio_loop *loop;
    command adopt, end;
    pid_t pid;
    pthread_mutex_t lock;
    bool is_reaped;  // guarded: no signal reaches the program any more

    // The fields below belong to the loop's thread.
    child child;
    cio_callback ended;
    uv_poll_t exit;
    uv_pipe_t input;
    uv_write_t write;
    char *input_bytes;
    size_t input_count;
    output outputs[2];
    uv_timer_t timer;  // the timeout
    uint64_t timeout;  // milliseconds; 0: none
    uint64_t due;      // milliseconds on the clock of uv_now: the end of the timeout
    uint64_t stopped;  // what `stopped_time` has taken off the timeout
    group *group;
    ending ending;
    bool is_input_open, is_exit_open, is_timer_open;
    bool is_ending, has_terminal;
    bool has_exited, is_zombie;  // a zombie until `reap`, unless another part of this process has waited for it
    bool has_reported;  // the result is complete and final
    int handle_count;   // open uv handles
    int wait_status;
    bool timed_out, lacked_memory, exceeded_limit, wanted_terminal;
    size_t capture_limit;  // bytes of each output
    char *label;           // owned; before the lines of outputs that have one
    cio_process *next, *previous;  // links of the loop's list
};

static void release(cio_process *process) {
    if (atomic_fetch_sub_explicit(&process->references, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < 2; i++) free(process->outputs[i].bytes);
    free(process->input_bytes);
    free(process->label);
    close_child(&process->child);
    pthread_mutex_destroy(&process->lock);
    loop_release(process->loop);
    free(process);
}

// MARK: the end, on the loop's thread

static void handle_is_closed(cio_process *process) {
    if (--process->handle_count > 0) return;
    free(process->input_bytes);
    process->input_bytes = NULL;
    release(process);
}

static void on_close(uv_handle_t *handle) { handle_is_closed(handle->data); }

static void close_handle(bool *is_open, uv_handle_t *handle) {
    if (!*is_open) return;
    *is_open = false;
    uv_close(handle, on_close);
}

static void close_output(cio_process *process, int i) {
    close_handle(&process->outputs[i].is_open, (uv_handle_t *)&process->outputs[i].pipe);
    if (process->outputs[i].label != NULL) label_stop(process->outputs[i].label);
}

static void close_input(cio_process *process) { close_handle(&process->is_input_open, (uv_handle_t *)&process->input); }

// A poll handle does not own its descriptor, so it is closed here.
static void close_exit(cio_process *process) {
    close_handle(&process->is_exit_open, (uv_handle_t *)&process->exit);
    close_descriptor(&process->child.exit);
}

// Reports the end of the process to the caller.
static void report(cio_process *process) {
    if (process->has_reported) return;
    process->has_reported = true;
    close_input(process);
    for (int i = 0; i < 2; i++) {
        close_output(process, i);
        // The caller may keep the output for long, without the room that reads did not need.
        char *fitting = realloc(process->outputs[i].bytes, process->outputs[i].count + 1);
        if (fitting != NULL) process->outputs[i].bytes = fitting;
    }
    process->ended.call(process->ended.context);
    process->ended.release(process->ended.context);
}

// Lets the system use the program's number again, which is the number of its group, too. So no signal may follow.
static void reap(cio_process *process) {
    group_release(process->group);
    process->group = NULL;
    pthread_mutex_lock(&process->lock);
    if (process->is_zombie && !process->is_reaped) reap_child(process->pid);
    process->is_reaped = true;
    pthread_mutex_unlock(&process->lock);
}

// Removes a process that has reported, and whose group has ended or need not be ended.
static void leave(cio_process *process) {
    cio_loop *loop = process->loop;
    reap(process);
    if (process->previous != NULL)
        process->previous->next = process->next;
    else
        loop->processes = process->next;
    if (process->next != NULL) process->next->previous = process->previous;
    close_exit(process);
    close_handle(&process->is_timer_open, (uv_handle_t *)&process->timer);
    if (loop->processes == NULL) uv_timer_stop(&loop->watch);
    loop_process_has_gone(loop);
}

static bool has_open_output(const cio_process *process) {
    for (int i = 0; i < 2; i++)
        if (process->outputs[i].is_open || process->outputs[i].label != NULL) return true;
    return false;
}

// Called when the process or one of its outputs has ended. Reports the end if nothing is left to wait for.
static void check(cio_process *process) {
    if (process->has_reported || !process->has_exited || has_open_output(process)) return;
    if (!process->is_ending) reap(process);
    report(process);
    if (!process->is_ending) leave(process);
}

static bool on_look(ending *ending, bool is_empty, uint64_t late) {
    cio_process *process = CONTAINER(ending, cio_process, ending);
    for (int i = 0; i < 2; i++)
        if (process->outputs[i].is_full) close_output(process, i);
    check(process);
    bool is_over = is_empty && process->has_exited && process->has_reported;
    if (!is_over && late < (process->has_exited ? LAST_WORDS : GIVEN_UP)) return false;
    if (!process->has_exited && process->has_terminal) terminal_take_back();
    if (!process->has_exited) process->wait_status = SIGKILL;
    report(process);
    leave(process);
    return true;
}

static void end_process(cio_process *process, cio_cause cause) {
    if (process->is_ending || process->is_reaped) return;
    process->is_ending = true;
    process->ending.group = process->group;
    process->ending.look = on_look;
    ending_begin(process->loop, &process->ending, cause);
}

static void on_timeout(uv_timer_t *timer) {
    cio_process *process = timer->data;
    uint64_t more = stopped_time(&process->stopped);
    if (more > 0) {
        process->due += more / 1000000;
        uint64_t now = uv_now(&process->loop->uv);
        uv_timer_start(timer, on_timeout, process->due > now ? process->due - now : 1, 0);
        return;
    }
    process->timed_out = true;
    end_process(process, CIO_CANCEL);
}

// Returns whether the program has exited.
static bool note_exit(cio_process *process, int options) {
    int found = look_at_child(process->pid, options, &process->wait_status);
    process->is_zombie = found > 0;
    return process->has_exited = found != 0;
}

static void on_exit_watch(uv_poll_t *exit, int status, int events) {
    (void)status;
    (void)events;
    cio_process *process = exit->data;
    if (!note_exit(process, WNOHANG)) return;
    close_exit(process);
    if (process->has_terminal) {
        terminal_take_back();
        // As in a shell, Ctrl-C that ends the program interrupts the host, which did not have the terminal.
        bool is_interrupted = WIFSIGNALED(process->wait_status) && WTERMSIG(process->wait_status) == SIGINT;
        if (is_interrupted && !process->is_ending && !process->was_signalled) kill(getpid(), SIGINT);
    }
    check(process);
}

// A process in the background that reads the terminal, or changes its modes, is stopped with its whole group.
static void watch_terminal(cio_process *process) {
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)process->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    bool wants_terminal = info.si_status == SIGTTIN || info.si_status == SIGTTOU;
    if (process->has_terminal) {
        // Some programs stop themselves by SIGSTOP when they are to be suspended.
        if (wants_terminal || info.si_status == SIGTSTP || !process->was_signalled) stop_job();
    } else if (wants_terminal && !process->is_ending) {
        process->wanted_terminal = true;
        end_process(process, CIO_CANCEL);
    }
}

static void on_watch(uv_timer_t *watch) {
    cio_loop *loop = watch->data;
    for (cio_process *process = loop->processes; process != NULL; process = process->next)
        if (!process->has_exited) watch_terminal(process);
}

// MARK: input and output, on the loop's thread

static void lack_memory(cio_process *process) {
    process->lacked_memory = true;
    end_process(process, CIO_CANCEL);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    output *output = CONTAINER(handle, struct output, pipe);
    if (output->capacity - output->count < LEAST_FREE) {
        size_t capacity = output->capacity == 0 ? FIRST_BLOCK : 2 * output->capacity;
        size_t most = ((cio_process *)handle->data)->capture_limit + 2 * LEAST_FREE;
        if (capacity > most) capacity = most;
        char *bytes = realloc(output->bytes, capacity);
        if (bytes != NULL) {
            output->bytes = bytes;
            output->capacity = capacity;
        }
    }
    size_t room = output->capacity - output->count;
    *buffer = uv_buf_init(room > 0 ? output->bytes + output->count : NULL, room < UINT32_MAX ? (unsigned)room : UINT32_MAX);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    (void)buffer;
    cio_process *process = stream->data;
    output *output = CONTAINER(stream, struct output, pipe);
    if (count < 0 && count != UV_ENOBUFS) {
        close_output(process, output == &process->outputs[1]);
        return check(process);
    }
    if (count >= 0) output->count += (size_t)count;
    if (count >= 0 && output->count <= process->capture_limit) return;
    if (count >= 0) {
        output->count = process->capture_limit;
        process->exceeded_limit = true;
    }
    // The program waits for the signal: if a closed pipe ended it, its descendants could no longer be found by their parents.
    uv_read_stop(stream);
    output->is_full = true;
    if (count < 0) return lack_memory(process);
    end_process(process, CIO_CANCEL);
}

// The status does not matter, because a program need not read its input.
static void on_write(uv_write_t *write, int status) {
    (void)status;
    cio_process *process = write->data;
    close_input(process);
}

static void write_input(cio_process *process) {
    process->write.data = process;
    uv_buf_t buffer = {.base = process->input_bytes, .len = process->input_count};
    if (buffer.len == 0 || uv_write(&process->write, (uv_stream_t *)&process->input, &buffer, 1, on_write) != 0) close_input(process);
}

// Passes the ownership of a descriptor to a handle.
static void open_pipe(cio_process *process, uv_pipe_t *pipe, int *descriptor, bool *is_open) {
    if (*descriptor < 0) return;
    uv_pipe_init(&process->loop->uv, pipe, 0);
    pipe->data = process;
    process->handle_count++;
    *is_open = true;
    if (uv_pipe_open(pipe, *descriptor) != 0) {
        close(*descriptor);
        uv_close((uv_handle_t *)pipe, on_close);
        *is_open = false;
    }
    *descriptor = -1;
}

// If the exit cannot be watched, nothing would report the end of the program, so it is killed now.
static void watch_exit(cio_process *process) {
    bool is_watched = uv_poll_init(&process->loop->uv, &process->exit, process->child.exit) == 0;
    if (is_watched) {
        process->exit.data = process;
        process->handle_count++;
        process->is_exit_open = true;
        if (uv_poll_start(&process->exit, UV_READABLE, on_exit_watch) == 0) return;
    }
    close_exit(process);
    kill(-process->pid, SIGKILL);
    note_exit(process, 0);
    if (process->has_terminal) terminal_take_back();
}

static void on_label_end(void *context) {
    output *output = context;
    output->label = NULL;
    check(output->process);
    handle_is_closed(output->process);
}

static void open_label(cio_process *process, int i) {
    output *output = &process->outputs[i];
    int descriptor = process->child.labels[i];
    if (descriptor < 0) return;
    process->child.labels[i] = -1;
    output->process = process;
    output->label = label_start(&process->loop->uv, descriptor, process->label, i == 1, on_label_end, output);
    if (output->label != NULL)
        process->handle_count++;
    else
        lack_memory(process);
}

static void adopt(command *command) {
    cio_process *process = CONTAINER(command, cio_process, adopt);
    cio_loop *loop = process->loop;
    process->next = loop->processes;
    if (process->next != NULL) process->next->previous = process;
    loop->processes = process;

    uv_timer_init(&loop->uv, &process->timer);
    process->timer.data = process;
    process->handle_count++;
    process->is_timer_open = true;
    if (process->timeout > 0) {
        uv_update_time(&loop->uv);
        process->due = uv_now(&loop->uv) + process->timeout;
        uv_timer_start(&process->timer, on_timeout, process->timeout, 0);
    }
    for (int i = 0; i < 2; i++) {
        output *output = &process->outputs[i];
        open_pipe(process, &output->pipe, &process->child.outputs[i], &output->is_open);
        if (output->is_open && uv_read_start((uv_stream_t *)&output->pipe, on_allocate, on_read) != 0) close_output(process, i);
        open_label(process, i);
    }
    open_pipe(process, &process->input, &process->child.input, &process->is_input_open);
    if (process->is_input_open) write_input(process);
    watch_exit(process);
    if (!uv_is_active((uv_handle_t *)&loop->watch) && terminal_exists()) uv_timer_start(&loop->watch, on_watch, WATCH, WATCH);
    int asked = atomic_load(&process->asked_to_end);
    if (loop->is_ending || asked != 0) end_process(process, loop->is_ending ? loop->cause : (cio_cause)asked);
    check(process);
}

static void end(command *command) {
    cio_process *process = CONTAINER(command, cio_process, end);
    end_process(process, (cio_cause)atomic_load(&process->asked_to_end));
    release(process);
}

void processes_end(cio_loop *loop) {
    for (cio_process *process = loop->processes; process != NULL; process = process->next) end_process(process, loop->cause);
}

// MARK: from other threads

static cio_process *make_process(cio_loop *loop, const cio_program *program) {
    cio_process *process = calloc(1, sizeof *process);
    if (process == NULL) return NULL;
    if (program->input_kind == CIO_TEXT && program->input_count > 0) {
        process->input_bytes = malloc(program->input_count);
        if (process->input_bytes == NULL) {
            free(process);
            return NULL;
        }
        memcpy(process->input_bytes, program->input, program->input_count);
        process->input_count = program->input_count;
    }
    process->group = group_reserve();
    if (process->group == NULL || (program->label != NULL && (process->label = strdup(program->label)) == NULL)) {
        group_release(process->group);
        free(process->input_bytes);
        free(process);
        return NULL;
    }
    process->has_terminal = program->has_terminal;
    process->ending.grace = program->grace / 1000000;
    process->stopped = stopped_so_far();
    atomic_init(&process->references, 2);  // one for the caller, one for the loop
    loop_retain(loop);
    process->loop = loop;
    process->adopt.run = adopt;
    process->end.run = end;
    process->timeout = (program->timeout + 999999) / 1000000;
    process->capture_limit = program->capture_limit;
    for (int i = 0; i < 2; i++) process->outputs[i].is_captured = program->outputs[i].kind == CIO_CAPTURE;
    pthread_mutex_init(&process->lock, NULL);
    return process;
}

// Kills a process that has started although the loop has stopped.
static void abandon(cio_process *process) {
    child *child = &process->child;
    kill(-child->pid, SIGKILL);
    note_exit(process, 0);
    reap(process);
    close_descriptor(&child->exit);
    close_child(child);
}

bool cio_process_start(cio_loop *loop, const cio_program *program, cio_callback ended, cio_process **started, cio_start_error *error) {
    cio_process *process = make_process(loop, program);
    if (process == NULL) {
        *error = (cio_start_error){.error = ENOMEM};
    } else {
        if (spawn(program, process->group, &process->child, error)) {
            process->pid = process->child.pid;
            if (process->has_terminal) terminal_is_lent(process->pid);
            process->ended = ended;
            *started = process;
            if (loop_post(loop, &process->adopt)) return true;
            *started = NULL;
            abandon(process);
            *error = (cio_start_error){.error = ECANCELED};
        }
        if (process->has_terminal) terminal_take_back();
        group_release(process->group);
        release(process);
        release(process);
    }
    ended.release(ended.context);
    return false;
}

void cio_process_end(cio_process *process, cio_cause cause) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&process->asked_to_end, &none, cause)) return;
    atomic_fetch_add_explicit(&process->references, 1, memory_order_relaxed);
    if (!loop_post(process->loop, &process->end)) release(process);
}

int cio_process_signal(cio_process *process, int signal_number) {
    process->was_signalled = true;
    pthread_mutex_lock(&process->lock);
    int error = process->is_reaped ? ESRCH : kill(-process->pid, signal_number) == 0 ? 0 : errno;
    pthread_mutex_unlock(&process->lock);
    return error;
}

int cio_process_pipe(cio_process *process, int standard) {
    int descriptor = process->child.pipes[standard];
    process->child.pipes[standard] = -1;
    return descriptor;
}

int cio_process_id(const cio_process *process) { return process->pid; }

cio_result cio_process_result(const cio_process *process) {
    int status = process->wait_status;
    cio_result result = {
        .status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .timed_out = process->timed_out,
        .lacked_memory = process->lacked_memory,
        .exceeded_limit = process->exceeded_limit,
        .wanted_terminal = process->wanted_terminal,
    };
    for (int i = 0; i < 2; i++) {
        result.is_captured[i] = process->outputs[i].is_captured;
        result.outputs[i] = process->outputs[i].bytes;
        result.output_counts[i] = process->outputs[i].count;
    }
    return result;
}

void cio_process_release(cio_process *process) { release(process); }
