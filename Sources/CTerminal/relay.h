// The relay and the prompt share these functions.
//
// While a prompt or a status row is drawn, a pseudo-terminal takes the place of descriptors 1 and 2 if they refer to the terminal. `isatty` stays
// true for scripts and their programs, and all their output passes the pump: a thread that copies the pseudo-terminal to the terminal. The
// pump erases the bottom, writes whole lines, and draws the bottom again. A lock decides who writes: the pump, or libedit while it handles a key.
//
// A thread that needs all earlier output on the screen writes a marker after that output. The pump removes the marker and wakes the thread. Every exit
// of the process and the handlers of fatal signals wait in this way.
#ifndef CTERMINAL_RELAY_H
#define CTERMINAL_RELAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/// Held during a write to the terminal.
void ct_lock(void);
void ct_unlock(void);

/// The terminal itself.
int ct_terminal(void);

/// Becomes readable after a signal, and after the pump has erased the prompt.
int ct_notice(void);
void ct_clear_notice(void);

// With the lock held:

/// Says that the prompt is drawn, with the cursor `rows` rows below its first row.
void ct_bottom_is_prompt(int rows);
bool ct_bottom_is_visible(void);
/// Erases the prompt or the status at the bottom.
void ct_bottom_take_away(void);
/// Leaves the beginning of an unfinished line where it is, because the next row belongs to something else.
void ct_forget_tail(void);
/// Removes the prompt or the status for good. Writes an unfinished line that was held back.
void ct_bottom_none(void);
void ct_write(const char *bytes, size_t count);
/// Moves the cursor to a new row unless it is at the start of one.
void ct_begin_row(void);

extern atomic_bool ct_was_resized, ct_was_continued;

/// Whether the mode of the terminal was changed and must be restored.
extern atomic_bool ct_changes_modes;

/// Makes SIGINT also wake the prompt. Call again after the handler of SIGINT has changed.
void ct_wake_on_interrupt(void);

#endif
