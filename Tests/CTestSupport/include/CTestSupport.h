// What tests need of C.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

/// Bytes in use by everything that is malloc'ed in this process. 0 under sanitizers, which replace malloc. (Swift's Glibc module
/// leaves <malloc.h> out.)
size_t allocated_bytes(void);

/// What a malloc'ed block has room for.
size_t block_bytes(const void *block);

/// Whether this was compiled for ThreadSanitizer. It does not see that a Lua error leaves functions, so that its own stack grows with
/// each, and slows it down: what raises thousands of errors on one thread is not for it.
bool has_thread_sanitizer(void);

/// Whether this was compiled for AddressSanitizer.
bool has_address_sanitizer(void);

/// Lets this process have so many bytes of addresses more than it has now. False: it could not.
bool limit_address_space(size_t more);

/// What of a state is to fail. It is there for as long as the process.
struct failing;

/// From now on the allocation with this number, from 0, fails in a state of the calling thread; so does the next attempt, which Lua
/// makes after it has collected garbage.
struct failing *fail_allocation(lua_State *L, size_t number);

/// No allocation of that state fails any more. Returns whether one did since fail_allocation. From any thread.
bool stop_failing(struct failing *failing);

/// Lets this process, whose other threads have not been started yet, use one processor only. False: it could not. (The macros for sets of
/// processors are not imported.)
bool use_one_processor(void);

/// A page that whoever reads it waits for, until `provide_page`; NULL where the kernel does not let this process make one.
struct missing_page;
struct missing_page *make_missing_page(void);
const volatile char *address_of_page(const struct missing_page *page);

/// Lets those go on who wait for it.
void provide_page(struct missing_page *page);

/// Frees what was made, when nobody reads it any more.
void free_page(struct missing_page *page);

// Has the kernel refuse `membarrier` to the calling thread and those that it starts, as a sandbox may. False where it cannot.
bool forbid_membarrier(void);

// Starts a program as the leader of a session whose terminal is a new pseudo-terminal with so many columns. Both arrays end with NULL.
// Returns the other end of the terminal; -1 on failure.
int spawn_in_terminal(const char *const *words, const char *const *environment, int columns, int *process);

// Waits for the program. Returns its exit status; 128 + n if signal n ended it.
int wait_for_process(int process);

#endif
