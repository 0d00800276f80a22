// Internal to this folder: starting a program, on the calling thread.
#ifndef CIO_SPAWN_H
#define CIO_SPAWN_H

#include <sys/types.h>

#include "CIO.h"

/// The parent's side of a child. -1 stands for a missing descriptor.
typedef struct child {
    pid_t pid;
    int exit;        // a pidfd: readable once the child has ended
    int input;       // the parent's ends of the pipes
    int outputs[2];
} child;

/// Returns false, fills `error`, and leaves nothing behind if the program cannot be started.
bool spawn(const cio_program *program, child *child, cio_start_error *error);

void close_descriptor(int *descriptor);

#endif
