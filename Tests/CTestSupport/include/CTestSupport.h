// C functions for tests.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

/// The number of malloc'ed bytes in this process; 0 under sanitizers, which replace malloc. Written in C because Swift's Glibc module
/// lacks <malloc.h>.
size_t allocated_bytes(void);

/// The usable size of a malloc'ed block.
size_t block_bytes(const void *block);

/// Whether this was compiled for ThreadSanitizer. ThreadSanitizer does not notice that a Lua error leaves functions: its own stack grows
/// with each error and slows it down. Tests that raise thousands of errors on one thread are disabled under it.
bool has_thread_sanitizer(void);

/// Whether this was compiled for AddressSanitizer.
bool has_address_sanitizer(void);

/// Limits this process to `more` bytes of address space above what it uses now. Returns false when that fails.
bool limit_address_space(size_t more);

/// Makes allocations of one state fail. It is never freed.
struct failing;

/// Makes allocation `number`, counted from 0, fail in a state of the calling thread. The next attempt fails as well, because Lua retries
/// after a garbage collection.
struct failing *fail_allocation(lua_State *L, size_t number);

/// Stops the failures in that state. Returns whether an allocation has failed since fail_allocation. Callable from any thread.
bool stop_failing(struct failing *failing);

/// Restricts this process to one processor. Call it before starting other threads. Returns false when that fails. Written in C because
/// Swift cannot import the macros for processor sets.
bool use_one_processor(void);

/// A page whose readers block until `provide_page`. NULL when the kernel does not allow this process to make one.
struct missing_page;
struct missing_page *make_missing_page(void);
const volatile char *address_of_page(const struct missing_page *page);

/// Lets the readers of the page go on.
void provide_page(struct missing_page *page);

/// Frees the page. No thread may be reading it.
void free_page(struct missing_page *page);

// Makes the kernel refuse `membarrier` to the calling thread and its future threads, as a sandbox may. Returns false when that fails.
bool forbid_membarrier(void);

// Starts a program as the leader of a session whose terminal is a new pseudo-terminal with so many columns. Both arrays end with NULL.
// Returns the other end of the terminal; -1 on failure.
int spawn_in_terminal(const char *const *words, const char *const *environment, int columns, int *process);

// Waits for the program. Returns its exit status; 128 + n if signal n ended it.
int wait_for_process(int process);

// Forks, executes the program without arguments in the child, and waits for it. Returns its exit status, as wait_for_process does; -1 on
// failure. Written in C because Swift cannot call fork.
int fork_and_execute(const char *program);

// Forks, calls `body` in the child, and waits for it. `text` gets what the child writes to stderr, cut at `size`. Returns the exit status, as
// wait_for_process does.
int fork_and_call(void (*body)(void *), void *context, char *text, size_t size);

// Calls fork. The child ends at once. Returns -1 on failure. Written in C because Swift cannot call fork.
int fork_here(void);

// Whether the calling process may send the first thread of a process a signal, and read the limits of a process. Set errno if not. Written in C
// because Swift cannot call syscall.
bool can_signal_thread(int process);
bool can_read_limits(int process);

// A descriptor that is readable once the process has ended; -1 if there is none. Written in C because Swift cannot call syscall.
int pidfd_of_process(int process);

#endif
