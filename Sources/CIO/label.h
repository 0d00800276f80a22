// Internal to this folder: output of programs with a label before each line.
#ifndef CIO_LABEL_H
#define CIO_LABEL_H

#include <stdbool.h>
#include <uv.h>

typedef struct label label;

/// On the loop's thread. Passes on what arrives at a pipe's end, which it owns from now on. Calls `ended` on that thread once the pipe has ended and
/// everything was written. The label is gone after that. Returns NULL if memory runs out; `ended` is not called then.
label *label_start(uv_loop_t *loop, int descriptor, const char *text, bool is_stderr, void (*ended)(void *context), void *context);

/// On the loop's thread. Makes a label end that has not ended. Calls `ended` later, after the write that is under way.
void label_stop(label *label);

#endif
