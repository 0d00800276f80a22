// Internal to this folder: ending the processes of a program, step by step.
#ifndef CIO_ENDING_H
#define CIO_ENDING_H

#include "CIO.h"
#include "groups.h"

/// A program that is being ended. Belongs to the loop's thread.
typedef struct ending {
    struct ending *next;  // link of the loop's list
    const group *group;
    const int *signals;   // those that are left; ends with 0
    uint64_t grace;       // milliseconds from one signal to the next
    uint64_t due_at;      // on the clock of uv_now: when to send the next signal
    uint64_t over_at;     // likewise: when no signal was left that could help; 0 before
    int due, sent;        // the signal that is being sent, and the last one before; otherwise 0
    bool lives, heeds;    // the last look has found a process; one that does not ignore SIGINT
    /// Called at each look. `is_empty` tells whether no process is left, `late` how many milliseconds ago the last signal was sent, or no process
    /// was found. Returns whether there is nothing more to do.
    bool (*look)(struct ending *ending, bool is_empty, uint64_t late);
} ending;

/// Begins to send the signals that `cause` demands, the first one at once. `group`, `grace` and `look` must be set. On the loop's thread.
void ending_begin(cio_loop *loop, ending *ending, cio_cause cause);

#endif
