#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobserver.h"

struct cio_jobserver {
    int tokens;      // reads and writes the pipe without blocking; an open file of its own, so that this does not concern other processes
    int ends[2];     // for programs: to read and to write; -1 with a fifo
    char *path;      // of a fifo
    char *folder;    // of a fifo that was made; NULL otherwise
    pid_t owner;
    pthread_mutex_t lock;
    bool is_closed;
    size_t held;
    char bytes[CIO_MOST_TOKENS];  // those that were read, which are written back
};

// The jobserver of this process, whose tokens are returned at its exit.
static _Atomic(cio_jobserver *) current;

static void close_current(void) {
    cio_jobserver *jobserver = atomic_load(&current);
    if (jobserver == NULL || jobserver->owner != getpid()) return;
    pthread_mutex_lock(&jobserver->lock);
    jobserver->is_closed = true;
    if (jobserver->held > 0 && write(jobserver->tokens, jobserver->bytes, jobserver->held) > 0) jobserver->held = 0;
    pthread_mutex_unlock(&jobserver->lock);
    if (jobserver->folder == NULL) return;
    unlink(jobserver->path);
    rmdir(jobserver->folder);
}

static void release(cio_jobserver *jobserver) {
    close_descriptor(&jobserver->tokens);
    for (int i = 0; i < 2; i++) close_descriptor(&jobserver->ends[i]);
    if (jobserver->folder != NULL) {
        unlink(jobserver->path);
        rmdir(jobserver->folder);
    }
    free(jobserver->folder);
    free(jobserver->path);
    free(jobserver);
}

static cio_jobserver *allocate(void) {
    cio_jobserver *jobserver = calloc(1, sizeof *jobserver);
    if (jobserver == NULL) return NULL;
    jobserver->tokens = jobserver->ends[0] = jobserver->ends[1] = -1;
    jobserver->owner = getpid();
    pthread_mutex_init(&jobserver->lock, NULL);
    return jobserver;
}

// Returns the jobserver if it could be opened, and otherwise releases it.
static cio_jobserver *opened(cio_jobserver *jobserver, bool is_open, int *error) {
    *error = is_open ? 0 : errno;
    if (!is_open) {
        release(jobserver);
        return NULL;
    }
    atomic_store(&current, jobserver);
    atexit(close_current);
    return jobserver;
}

static bool is_pipe(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return false;
    if (S_ISFIFO(status.st_mode)) return true;
    errno = EBADF;
    return false;
}

// Opens the pipe anew, and copies its ends above the descriptors that programs get.
static bool open_ends(cio_jobserver *jobserver, const int ends[2]) {
    char path[32];
    struct stat pipes[2];
    for (int i = 0; i < 2; i++) {
        if (!is_pipe(ends[i]) || fstat(ends[i], &pipes[i]) != 0) return false;
        // Two pipes of something else may have these numbers.
        if (pipes[i].st_ino != pipes[0].st_ino || pipes[i].st_dev != pipes[0].st_dev) {
            errno = EBADF;
            return false;
        }
        jobserver->ends[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, JOBSERVER_DESCRIPTOR + 2);
        if (jobserver->ends[i] < 0) return false;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    jobserver->tokens = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return jobserver->tokens >= 0;
}

static bool open_path(cio_jobserver *jobserver) {
    jobserver->tokens = open(jobserver->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return jobserver->tokens >= 0 && is_pipe(jobserver->tokens);
}

static bool make_pipe(cio_jobserver *jobserver) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    bool is_open = open_ends(jobserver, ends);
    int error = errno;
    for (int i = 0; i < 2; i++) close(ends[i]);
    errno = error;
    return is_open;
}

static bool make_fifo(cio_jobserver *jobserver) {
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || *parent == 0) parent = "/tmp";
    char *folder = NULL;
    if (asprintf(&folder, "%s/opscript-XXXXXX", parent) < 0) return false;
    if (mkdtemp(folder) == NULL) {
        free(folder);
        return false;
    }
    jobserver->folder = folder;
    if (asprintf(&jobserver->path, "%s/jobserver", folder) < 0) {
        jobserver->path = NULL;
        return false;
    }
    return mkfifo(jobserver->path, 0600) == 0 && open_path(jobserver);
}

cio_jobserver *cio_jobserver_make(size_t count, bool is_fifo, int *error) {
    cio_jobserver *jobserver = allocate();
    if (jobserver == NULL) {
        *error = ENOMEM;
        return NULL;
    }
    bool is_open = is_fifo ? make_fifo(jobserver) : make_pipe(jobserver);
    if (count > CIO_MOST_TOKENS) count = CIO_MOST_TOKENS;
    memset(jobserver->bytes, '+', count);
    if (is_open && count > 0) is_open = write(jobserver->tokens, jobserver->bytes, count) == (ssize_t)count;
    return opened(jobserver, is_open, error);
}

cio_jobserver *cio_jobserver_open(int reading, int writing, int *error) {
    cio_jobserver *jobserver = allocate();
    if (jobserver == NULL) {
        *error = ENOMEM;
        return NULL;
    }
    const int ends[] = {reading, writing};
    return opened(jobserver, open_ends(jobserver, ends), error);
}

cio_jobserver *cio_jobserver_open_fifo(const char *path, int *error) {
    cio_jobserver *jobserver = allocate();
    if (jobserver != NULL) jobserver->path = strdup(path);
    if (jobserver == NULL || jobserver->path == NULL) {
        free(jobserver);
        *error = ENOMEM;
        return NULL;
    }
    return opened(jobserver, open_path(jobserver), error);
}

const char *cio_jobserver_path(const cio_jobserver *jobserver) { return jobserver->path; }

bool cio_jobserver_take(cio_jobserver *jobserver) {
    pthread_mutex_lock(&jobserver->lock);
    bool is_taken = !jobserver->is_closed && jobserver->held < CIO_MOST_TOKENS
        && read(jobserver->tokens, &jobserver->bytes[jobserver->held], 1) == 1;
    if (is_taken) jobserver->held++;
    pthread_mutex_unlock(&jobserver->lock);
    return is_taken;
}

void cio_jobserver_give(cio_jobserver *jobserver) {
    pthread_mutex_lock(&jobserver->lock);
    // A byte that is not written now is written at the exit.
    if (jobserver->held > 0 && write(jobserver->tokens, &jobserver->bytes[jobserver->held - 1], 1) == 1) jobserver->held--;
    pthread_mutex_unlock(&jobserver->lock);
}

void cio_jobserver_refill(cio_jobserver *jobserver, size_t count) {
    pthread_mutex_lock(&jobserver->lock);
    int waiting = 0;
    if (ioctl(jobserver->tokens, FIONREAD, &waiting) == 0)
        for (size_t known = jobserver->held + (size_t)waiting; known < count && write(jobserver->tokens, "+", 1) == 1; known++) continue;
    pthread_mutex_unlock(&jobserver->lock);
}

int jobserver_pass_on(const cio_jobserver *jobserver, posix_spawn_file_actions_t *actions) {
    int error = 0;
    for (int i = 0; i < 2 && error == 0 && jobserver->ends[i] >= 0; i++)
        error = posix_spawn_file_actions_adddup2(actions, jobserver->ends[i], JOBSERVER_DESCRIPTOR + i);
    return error;
}

int jobserver_first_closed(const cio_jobserver *jobserver) {
    return jobserver != NULL && jobserver->ends[0] >= 0 ? JOBSERVER_DESCRIPTOR + 2 : 3;
}
