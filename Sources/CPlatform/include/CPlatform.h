// Functions of Linux that OpPlatform and OpEngine need and Swift cannot call. Each one states the reason.
#ifndef CPLATFORM_H
#define CPLATFORM_H

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Why: `syscall` is variadic, and Swift does not import variadic functions.
// Sleeps while `*word == expected`. `deadline` is a CLOCK_MONOTONIC instant or NULL.
// Returns 0 when woken, otherwise EAGAIN, EINTR or ETIMEDOUT.
static inline int cplatform_futex_wait(const void *word, uint32_t expected, const struct timespec *deadline) {
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == 0 ? 0 : errno;
}

// Why: `syscall` is variadic. Wakes at most `count` threads that sleep on `word`. Async-signal-safe.
static inline void cplatform_futex_wake(const void *word, int count) {
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = saved;
}

// Why: Swift has no thread-local variables, and pthread_getspecific needs a call for each access.
extern _Thread_local void *cplatform_thread_context;
extern _Thread_local void *cplatform_thread_releases;

// A flag that is set while this thread sleeps at a lock, or NULL.
extern _Thread_local bool *cplatform_lock_wait_flag;

static inline void *cplatform_get_thread_context(void) { return cplatform_thread_context; }
static inline void cplatform_set_thread_context(void *context) { cplatform_thread_context = context; }
static inline void *cplatform_get_thread_releases(void) { return cplatform_thread_releases; }
static inline void cplatform_set_thread_releases(void *releases) { cplatform_thread_releases = releases; }

static inline void cplatform_set_lock_wait_flag(void *flag) { cplatform_lock_wait_flag = flag; }
static inline void cplatform_announce_lock_wait(bool waits) {
    if (cplatform_lock_wait_flag != NULL) __atomic_store_n(cplatform_lock_wait_flag, waits, __ATOMIC_RELEASE);
}

// Why: programs in C start threads as well, and all of them follow one policy for signals, which belong to the host's threads.
// Starts a thread that receives no signals but those that it causes itself: faults, and SIGPIPE for writing to a closed pipe. Stores the identifier of a
// joinable thread in `thread` before it returns; without `thread` the new one is detached. Returns 0 or an error number.
int cplatform_start_thread(pthread_t *thread, void *(*body)(void *), void *argument);

// Why: gettid is not imported, and would make a system call each time.
// Returns the kernel's number of this thread. That of the first thread is the process's.
int cplatform_thread_id(void);

// Why: a handler of pthread_atfork counts. Swift refuses to call functions that fork, and a handler in Swift could not run in the child.
// The number of forks that led from the process that loaded this code to this one. A child does not have the threads of its parent.
extern int cplatform_fork_count;
static inline int cplatform_get_fork_count(void) { return cplatform_fork_count; }

// Why: sched_getcpu is not declared without _GNU_SOURCE.
// Returns the processor that the calling thread runs on, or ran on a moment ago; -1 if unknown. Cheap and async-signal-safe.
int cplatform_processor(void);

// Why: the CPU_* macros are not imported.
// Returns the number of processors in this thread's affinity mask; 0 if unknown.
int cplatform_affinity_count(void);

// Why: the first parameter is an enumeration in one C library and an integer in others.
// Returns the nice value of a thread. 0 stands for the calling thread, the process's number for its first thread.
static inline int cplatform_nice(int thread) { return getpriority(PRIO_PROCESS, (id_t)thread); }
// Raises the nice value of the calling thread.
static inline void cplatform_set_nice(int nice) { setpriority(PRIO_PROCESS, 0, nice); }

// Why: Swift imports eventfd's flags with a type that differs from the parameter's.
// Returns a new non-blocking eventfd that is closed on exec, or a negated error number.
static inline int cplatform_event_make(void) {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return descriptor >= 0 ? descriptor : -errno;
}
// Makes the descriptor readable.
static inline void cplatform_event_signal(int descriptor) {
    int saved = errno;
    eventfd_write(descriptor, 1);
    errno = saved;
}
// Makes the descriptor unreadable.
static inline void cplatform_event_clear(int descriptor) {
    int saved = errno;
    eventfd_t count;
    eventfd_read(descriptor, &count);
    errno = saved;
}

// Why: Swift reads the arguments from /proc, which may not be mounted.
// The argument of the process with this number; NULL after the last one.
const char *cplatform_argument(int index);

// Why: `syscall` is variadic.
// Whether `cplatform_membarrier` may be called. Constant, but for tests.
extern bool cplatform_has_membarrier __attribute__((swift_attr("nonisolated(unsafe)")));
// Issues a memory barrier on every processor that runs this process. Takes about 30 µs. Returns false if the kernel refuses.
bool cplatform_membarrier(void);

// Why: Swift has no compiler barrier.
static inline void cplatform_compiler_barrier(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// Why: the Swift runtime provides this function, but Swift code reaches it only through weak references, which cost a side table for each
// object.
// Retains an object, whose memory must still be allocated. Returns false if the object is being deallocated.
extern void *swift_tryRetain(void *object);
static inline bool cplatform_try_retain(void *object) { return swift_tryRetain(object) != NULL; }

// Why: a processor instruction. Prefetches a cache line that will soon be written. Does not stall, and accepts any address.
static inline void cplatform_prefetch(const void *address) { __builtin_prefetch(address, 1, 3); }

// Why: a processor instruction. A spinning thread leaves the core's resources to its hyperthread.
static inline void cplatform_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
