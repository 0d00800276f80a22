// Internal to this folder: the loop, and how other threads reach it.
#ifndef CIO_LOOP_H
#define CIO_LOOP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <uv.h>

#include "CIO.h"

/// Work for the loop's thread. A command is embedded in the object it concerns, so that posting one needs no memory.
typedef struct command {
    struct command *next;
    void (*run)(struct command *command);
} command;

struct cio_loop {
    atomic_int references;
    pthread_t thread;
    pthread_mutex_t lock;
    command *first, *last;  // guarded
    bool is_closed;         // guarded: the loop accepts no more commands
    command end_processes, await_processes, stop;

    // The fields below belong to the loop's thread.
    uv_loop_t uv;
    uv_async_t wake;
    cio_timer *timers;
    cio_process *processes;
    cio_stream *streams;  // those that have a poll handle
    cio_fetch *fetches;
    struct transfers *transfers;  // NULL before the first request
    struct ending *endings;  // the programs that are being ended
    uv_timer_t ender;        // advances them
    uint64_t look_at;        // on the clock of uv_now: when to look next for their processes
    uv_timer_t watch;        // finds programs that want the terminal
    cio_cause cause;         // why all programs are being ended
    sem_t none_left;   // posted when a thread waits and no process is left
    bool is_awaited;   // a thread waits until no process is left
    bool is_ending;    // processes are being ended
    bool is_stopping;  // timers are cancelled as well
};

/// The struct that contains a member.
#define CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/// Queues `command` for the loop's thread. Commands run in the order of posting. Returns false if the loop has stopped.
bool loop_post(cio_loop *loop, command *command);

void loop_retain(cio_loop *loop);
void loop_release(cio_loop *loop);

/// On the loop's thread: checks whether no processes are left. If so, wakes the thread that waits for that, and closes a stopping loop.
void loop_process_has_gone(cio_loop *loop);

/// On the loop's thread. Cancel all timers; end all processes; stop polling all streams.
void timers_cancel(cio_loop *loop);
void processes_end(cio_loop *loop);
void streams_leave(cio_loop *loop);

/// On the loop's thread. End all requests; close the connections, too.
void fetches_end(cio_loop *loop);
void transfers_close(cio_loop *loop);

#endif
