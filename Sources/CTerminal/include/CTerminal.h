// Functions that the command needs and Swift cannot call: a pseudo-terminal between the process and its terminal, signal handlers, libedit,
// whose functions are variadic, and functions that the C library declares for GNU programs only.
//
// While the relay is active, a pseudo-terminal takes the place of descriptors 1 and 2 if they refer to the terminal. One thread, the pump,
// copies the output to the terminal. If a prompt or a status line is drawn at the bottom, the pump erases it, writes whole lines, and has
// it drawn again.
#ifndef CTERMINAL_H
#define CTERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/// The text of editor/opscript.d.lua.
const char *ct_annotations(void);

// MARK: relay

/// Begins to relay the output of the process to the terminal of `descriptor`. Returns false, and changes nothing, if the system has no
/// pseudo-terminal left. The relay also ends when the process exits.
bool ct_relay_begin(int descriptor);

/// Writes the remaining output and ends the relay. Does nothing if no relay is active. From any thread.
void ct_relay_end(void);

/// As ct_relay_end, but makes only calls that a signal handler may make: restores the terminal and waits at most 300 ms for the pump.
void ct_relay_abandon(void);

/// Waits until everything that was written so far is on the terminal, but at most one second.
void ct_relay_sync(void);

/// Draws `text`, which is one row of the terminal, below the output. Replaces the previous status line.
void ct_status_show(const char *text, size_t count);
void ct_status_hide(void);

/// Makes room for a program that gets the terminal: takes the prompt or the status line away, and restores the terminal's modes. Output is written
/// as it arrives until ct_take_back.
void ct_lend(void);
void ct_take_back(void);

/// Whether a program has the terminal.
bool ct_is_lent(void);

/// Whether the shell has given the terminal to this process. The relay must be active.
bool ct_is_foreground(void);

/// The number of columns of the terminal; 0 if `descriptor` is no terminal.
int ct_columns(int descriptor);

/// Writes the buffered output of scripts.
void ct_flush(void);

// MARK: prompt

/// The functions that a prompt calls while it waits for a key, on the thread that calls ct_prompt_read.
typedef struct ct_prompt_host {
    void *context;
    /// Becomes readable when `wake` has work.
    int descriptor;
    /// Runs the callbacks that have arrived. Also called after a signal.
    int (*wake)(void *context);
    /// Completes `line`, the text before the cursor. Replies through ct_prompt_complete.
    void (*complete)(void *context, const char *line);
} ct_prompt_host;

/// The results of `wake`.
enum { CT_GO_ON, CT_CLEAR_LINE, CT_LEAVE };

/// How ct_prompt_read has ended.
typedef enum ct_prompt_end { CT_LINE, CT_END_OF_INPUT, CT_INTERRUPTED, CT_LEFT } ct_prompt_end;

/// Prepares reading lines from standard input. The relay must be active. Returns false if memory has run out or the terminal is unknown.
bool ct_prompt_begin(const ct_prompt_host *host);
void ct_prompt_end_all(void);

/// Reads a line, without its newline, after writing `prompt`. `*line` is valid until the next call.
ct_prompt_end ct_prompt_read(const char *prompt, const char **line);

/// Adds a line to the history that the arrow keys walk through.
void ct_prompt_remember(const char *line);

/// Replies to `complete`: inserts `text` at the cursor, and shows `choices`, lines of text, above the prompt if it is not empty.
void ct_prompt_complete(const char *text, const char *choices);

// MARK: the history's file

/// Opens a file, waits for its lock, and returns the descriptor; -1 on failure. Closing it gives the lock back.
int ct_open_locked(const char *path);

// MARK: sockets

/// Accepts a connection to a Unix socket from a process of the same user. Returns its descriptor; -1, with `errno`, on failure. A connection
/// from another user's process is closed; `errno` is then ECONNABORTED.
int ct_accept(int listener);

// MARK: signals

/// Delivers SIGINT to this process on the calling thread, even if that thread blocks signals. Returns when the handler has run.
void ct_interrupt(void);

#endif
