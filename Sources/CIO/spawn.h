// Internal to this folder: starting a program, on the thread that asks for it.
#ifndef CIO_SPAWN_H
#define CIO_SPAWN_H

#include <sys/types.h>

#include "CIO.h"

/// What the parent has of a child. A descriptor that there is not is -1.
typedef struct child {
    pid_t pid;
    int exit;        // a pidfd: readable when the child has ended
    int input;       // the ends of its pipes
    int outputs[2];
} child;

/// False, with `error` filled, when the program could not be started; then nothing is left of it.
bool spawn(const cio_program *program, child *child, cio_start_error *error);

void close_descriptor(int *descriptor);

#endif
