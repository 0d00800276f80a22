#define _GNU_SOURCE
#include "CPlatform.h"
#include <linux/membarrier.h>

#include <signal.h>
#include <stdlib.h>

_Thread_local void *cplatform_thread_context;
_Thread_local void *cplatform_thread_releases;
_Thread_local bool *cplatform_lock_wait_flag;

int cplatform_start_thread(pthread_t *thread, void *(*body)(void *), void *argument) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_t other;
    int error = pthread_create(thread != NULL ? thread : &other, thread != NULL ? NULL : &detached, body, argument);
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static _Thread_local int thread_id;

int cplatform_thread_id(void) {
    if (thread_id == 0) thread_id = (int)syscall(SYS_gettid);
    return thread_id;
}

int cplatform_fork_count = 0;

static void register_membarrier(void);

// In the child, on the only thread that it has.
static void has_forked(void) {
    cplatform_fork_count++;
    thread_id = 0;
    register_membarrier();
}

int cplatform_processor(void) { return sched_getcpu(); }

int cplatform_affinity_count(void) {
    // A static cpu_set_t holds 1024 processors. Larger machines need a larger set.
    for (int processors = 1024; processors <= 65536; processors *= 4) {
        cpu_set_t *set = CPU_ALLOC(processors);
        if (set == NULL) return 0;
        size_t size = CPU_ALLOC_SIZE(processors);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        bool tooSmall = count == 0 && errno == EINVAL;
        CPU_FREE(set);
        if (!tooSmall) return count;
    }
    return 0;
}

bool cplatform_has_membarrier = false;

static int argument_count;
static char **arguments;

const char *cplatform_argument(int index) { return index < argument_count ? arguments[index] : NULL; }

// A constructor, because registering is slow once the process has several threads. The C library passes it the arguments of the process, which
// Swift reads from /proc.
__attribute__((constructor)) static void prepare(int count, char **values) {
    argument_count = count;
    arguments = values;
    register_membarrier();
    pthread_atfork(NULL, NULL, has_forked);
}

static void register_membarrier(void) {
    cplatform_has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool cplatform_membarrier(void) { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; }
