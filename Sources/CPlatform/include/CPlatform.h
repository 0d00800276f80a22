// What OpEngine needs from Linux and cannot reach from Swift. Each stub says why it exists.
#ifndef CPLATFORM_H
#define CPLATFORM_H

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Why: `syscall` is variadic, and variadic functions are not imported.
// Waits while `*word == expected`. `deadline` is a CLOCK_MONOTONIC instant or NULL.
// Returns 0 when woken, otherwise EAGAIN, EINTR or ETIMEDOUT.
static inline int cplatform_futex_wait(const void *word, uint32_t expected, const struct timespec *deadline) {
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == 0 ? 0 : errno;
}

// Why: as above. Wakes at most `count` threads that wait on `word`. Async-signal-safe.
static inline void cplatform_futex_wake(const void *word, int count) {
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = saved;
}

// Why: Swift has no thread-local variables, and pthread_getspecific is a call for each access.
extern _Thread_local void *cplatform_thread_context;
extern _Thread_local void *cplatform_thread_releases;

static inline void *cplatform_get_thread_context(void) { return cplatform_thread_context; }
static inline void cplatform_set_thread_context(void *context) { cplatform_thread_context = context; }
static inline void *cplatform_get_thread_releases(void) { return cplatform_thread_releases; }
static inline void cplatform_set_thread_releases(void *releases) { cplatform_thread_releases = releases; }

// Why: gettid is not imported, and a system call each time. The kernel's number of this thread; the process's for its first.
int cplatform_thread_id(void);

// Why: sched_getcpu is not declared without _GNU_SOURCE. The processor that the calling thread runs on, or did a moment ago; -1 when
// the kernel does not say. Cheap, and async-signal-safe.
int cplatform_processor(void);

// Why: the CPU_* macros are not imported. Moves the calling thread to another processor of its affinity mask, which stays what it is;
// does nothing where there is none.
void cplatform_leave_processor(void);

// Why: the CPU_* macros are not imported. Processors in this thread's affinity mask; 0 when the kernel does not say.
int cplatform_affinity_count(void);

// Why: the first parameter has an enumeration's type in one C library and an integer's in others.
// The nice value of a thread; 0 is the calling one, the process's number its first.
static inline int cplatform_nice(int thread) { return getpriority(PRIO_PROCESS, (id_t)thread); }
// Raises the nice value of the calling thread.
static inline void cplatform_set_nice(int nice) { setpriority(PRIO_PROCESS, 0, nice); }

// Why: eventfd's flags are an enumeration that Swift imports as another type than the parameter's.
// A new event descriptor, which neither blocks nor is inherited; a negated error when there is none.
static inline int cplatform_event_make(void) {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return descriptor >= 0 ? descriptor : -errno;
}
// Makes it readable.
static inline void cplatform_event_signal(int descriptor) {
    int saved = errno;
    eventfd_write(descriptor, 1);
    errno = saved;
}
// Makes it unreadable.
static inline void cplatform_event_clear(int descriptor) {
    int saved = errno;
    eventfd_t count;
    eventfd_read(descriptor, &count);
    errno = saved;
}

// Why: `syscall` is variadic, and Swift has no compiler barrier. A pair of barriers: of two threads, one that stores, calls the light one
// and loads, and one that stores, calls the heavy one and loads, at least one sees what the other has stored. Where the kernel has
// `membarrier`, the light one costs nothing and the heavy one some 30 µs; elsewhere both are full fences.
extern bool cplatform_orders_all_threads __attribute__((swift_attr("nonisolated(unsafe)")));  // constant, but for tests
void cplatform_heavy_barrier(void);
static inline void cplatform_light_barrier(void) {
    if (__builtin_expect(cplatform_orders_all_threads, true)) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

// Why: the Swift runtime's, and only weak references, which cost an object of their own, reach it from Swift. Retains an object, whose memory
// must be there, unless its end has begun: then false.
extern void *swift_tryRetain(void *object);
static inline bool cplatform_try_retain(void *object) { return swift_tryRetain(object) != NULL; }

// Why: an instruction of the processor, which fetches a line of memory that will soon be needed. Nobody waits for it; any address will do.
static inline void cplatform_prefetch(const void *address) { __builtin_prefetch(address, 1, 3); }

// Why: an instruction of the processor; a spinning thread leaves the core's resources to its sibling.
static inline void cplatform_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
