// Internal to this folder: the loop, and how other threads reach it.
#ifndef CIO_LOOP_H
#define CIO_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "CIO.h"

/// Something to be done on the loop's thread. It is part of what it is about, and so needs no memory of its own.
typedef struct command {
    struct command *next;
    void (*run)(struct command *command);
} command;

struct cio_loop {
    atomic_int references;
    pthread_t thread;
    pthread_mutex_t lock;
    command *first, *last;  // guarded
    bool is_closed;         // guarded: no commands are taken any more
    command end_processes, stop;

    // What follows belongs to the loop's thread.
    uv_loop_t uv;
    uv_async_t wake;
    cio_timer *timers;
    cio_process *processes;
    bool is_ending;    // processes are ended
    bool is_stopping;  // timers as well
};

/// The struct that a member belongs to.
#define CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/// Has `command` run on the loop's thread, in the order of the posts. False when the loop has stopped.
bool loop_post(cio_loop *loop, command *command);

void loop_retain(cio_loop *loop);
void loop_release(cio_loop *loop);

/// On the loop's thread: the last process may have gone.
void loop_process_has_gone(cio_loop *loop);

/// On the loop's thread: the end of all timers and of all processes that there are.
void timers_cancel(cio_loop *loop);
void processes_end(cio_loop *loop);

#endif
