#include "loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "CPlatform.h"

bool loop_post(cio_loop *loop, command *command) {
    pthread_mutex_lock(&loop->lock);
    bool is_accepted = !loop->is_closed;
    if (is_accepted) {
        command->next = NULL;
        bool was_empty = loop->first == NULL;
        if (was_empty)
            loop->first = command;
        else
            loop->last->next = command;
        loop->last = command;
        // The lock keeps the loop from closing this handle during the call.
        if (was_empty) uv_async_send(&loop->wake);
    }
    pthread_mutex_unlock(&loop->lock);
    return is_accepted;
}

void loop_retain(cio_loop *loop) { atomic_fetch_add_explicit(&loop->references, 1, memory_order_relaxed); }

void loop_release(cio_loop *loop) {
    if (atomic_fetch_sub_explicit(&loop->references, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&loop->lock);
    sem_destroy(&loop->none_left);
    free(loop);
}

// MARK: on the loop's thread

static void run_commands(cio_loop *loop) {
    pthread_mutex_lock(&loop->lock);
    command *next = loop->first;
    loop->first = loop->last = NULL;
    pthread_mutex_unlock(&loop->lock);
    while (next != NULL) {
        command *command = next;
        next = command->next;
        command->run(command);
    }
}

static void on_wake(uv_async_t *wake) { run_commands(wake->data); }

// Closes the handles of the loop itself, which then ends.
static void close_handles(cio_loop *loop) {
    uv_handle_t *handles[] = {(uv_handle_t *)&loop->wake, (uv_handle_t *)&loop->ender, (uv_handle_t *)&loop->watch};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) uv_close(handles[i], NULL);
}

void loop_process_has_gone(cio_loop *loop) {
    if (loop->is_awaited && loop->processes == NULL) {
        loop->is_awaited = false;
        sem_post(&loop->none_left);
    }
    if (!loop->is_stopping || uv_is_closing((uv_handle_t *)&loop->wake)) return;
    while (loop->processes == NULL) {
        pthread_mutex_lock(&loop->lock);
        bool is_empty = loop->first == NULL;
        loop->is_closed = is_empty;
        pthread_mutex_unlock(&loop->lock);
        if (is_empty) {
            close_handles(loop);
            return;
        }
        // Run commands that arrived just before. None of them can keep a stopping loop alive for long.
        run_commands(loop);
        if (uv_is_closing((uv_handle_t *)&loop->wake)) return;
    }
}

static void end_processes(command *command) {
    cio_loop *loop = CONTAINER(command, cio_loop, end_processes);
    loop->is_ending = true;
    fetches_end(loop);
    processes_end(loop);
}

static void await_processes(command *command) {
    cio_loop *loop = CONTAINER(command, cio_loop, await_processes);
    loop->is_awaited = true;
    loop_process_has_gone(loop);
}

static void stop(command *command) {
    cio_loop *loop = CONTAINER(command, cio_loop, stop);
    loop->is_ending = loop->is_stopping = true;
    timers_cancel(loop);
    streams_leave(loop);
    fetches_end(loop);
    transfers_close(loop);
    processes_end(loop);
    loop_process_has_gone(loop);
}

static void *run(void *context) {
    cio_loop *loop = context;
    // A write to a closed pipe gives an error, not a signal.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    loop_release(loop);
    return NULL;
}

// MARK: from other threads

// If SIGCHLD is ignored, the system discards the exit statuses of children.
static void heed_ended_children(void) {
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
        action.sa_handler = SIG_DFL;
        sigaction(SIGCHLD, &action, NULL);
    }
}

// libuv ends the process if it finds no descriptors for its signals, and takes six for a loop.
static bool are_descriptors_free(void) {
    enum { NEEDED = 8 };
    int opened[NEEDED], count = 0;
    while (count < NEEDED && (opened[count] = eventfd(0, EFD_CLOEXEC)) >= 0) count++;
    for (int i = 0; i < count; i++) close(opened[i]);
    return count == NEEDED;
}

cio_loop *cio_loop_start(int *error) {
    if (!are_descriptors_free()) {
        *error = EMFILE;
        return NULL;
    }
    cio_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        *error = UV_ENOMEM;
        return NULL;
    }
    atomic_init(&loop->references, 1);
    pthread_mutex_init(&loop->lock, NULL);
    sem_init(&loop->none_left, 0, 0);
    loop->end_processes.run = end_processes;
    loop->await_processes.run = await_processes;
    loop->stop.run = stop;
    loop->cause = CIO_CANCEL;
    *error = uv_loop_init(&loop->uv);
    if (*error == 0) {
        *error = uv_async_init(&loop->uv, &loop->wake, on_wake);
        loop->wake.data = loop;
        if (*error == 0) {
            uv_timer_init(&loop->uv, &loop->ender);
            uv_timer_init(&loop->uv, &loop->watch);
            loop->ender.data = loop->watch.data = loop;
            heed_ended_children();
            loop_retain(loop);  // for the thread
            *error = -cplatform_start_thread(&loop->thread, run, loop);
            if (*error == 0) return loop;
            loop_release(loop);
            close_handles(loop);
            uv_run(&loop->uv, UV_RUN_DEFAULT);
        }
        uv_loop_close(&loop->uv);
    }
    *error = -*error;  // libuv's errors are negated errnos
    loop_release(loop);
    return NULL;
}

void cio_loop_end_processes(cio_loop *loop, cio_cause cause) {
    loop->cause = cause;
    loop_post(loop, &loop->end_processes);
}

void cio_loop_await_processes(cio_loop *loop) {
    loop_post(loop, &loop->await_processes);
    while (sem_wait(&loop->none_left) != 0) {}
}

void cio_loop_stop(cio_loop *loop) {
    loop_post(loop, &loop->stop);
    pthread_join(loop->thread, NULL);
}

void cio_loop_release(cio_loop *loop) { loop_release(loop); }
