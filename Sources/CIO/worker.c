#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "CIO.h"
#include "spawn.h"

extern char **environ;

// Makes a pair of sockets. The child's end is above the descriptors that it will have in the child.
static int open_pair(int type, int *parent, int *child) {
    int ends[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    *parent = ends[0];
    *child = fcntl(ends[1], F_DUPFD_CLOEXEC, 16);
    int error = *child < 0 ? errno : 0;
    close(ends[1]);
    return error;
}

static int spawn_worker(const char *const *arguments, bool is_silent, const int ends[2], pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        // A group of its own, so that Ctrl-C reaches the host only.
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        if (is_silent) {
            error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
            if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        }
        for (int i = 0; i < 2 && error == 0; i++) error = posix_spawn_file_actions_adddup2(&actions, ends[i], 3 + i);
        if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions, 5);
        if (error == 0) error = posix_spawnp(pid, arguments[0], &actions, &attributes, (char *const *)arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int cio_start_worker(const char *const *arguments, bool is_silent, cio_worker *worker) {
    int parents[2] = {-1, -1}, children[2] = {-1, -1};
    pid_t pid = 0;
    int error = open_pair(SOCK_STREAM, &parents[0], &children[0]);
    if (error == 0) error = open_pair(SOCK_SEQPACKET, &parents[1], &children[1]);
    if (error == 0) error = spawn_worker(arguments, is_silent, children, &pid);
    for (int i = 0; i < 2; i++) close_descriptor(&children[i]);
    if (error != 0)
        for (int i = 0; i < 2; i++) close_descriptor(&parents[i]);
    *worker = (cio_worker){pid, parents[0], parents[1]};
    return error;
}

bool cio_await_worker(int process, int milliseconds, int *status) {
    // Readable once the process has ended.
    int ended = (int)syscall(SYS_pidfd_open, process, 0);
    struct pollfd polled = {ended, POLLIN, 0};
    int count = 0;
    if (ended >= 0 && milliseconds > 0)
        do count = poll(&polled, 1, milliseconds);
        while (count < 0 && errno == EINTR);
    close_descriptor(&ended);
    bool is_killed = count <= 0;
    if (is_killed) kill(process, SIGKILL);
    while (waitpid(process, status, 0) < 0 && errno == EINTR) continue;
    return !is_killed;
}

cio_end cio_end_of(int status) {
    if (WIFSIGNALED(status)) return (cio_end){-1, WTERMSIG(status)};
    return (cio_end){WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0};
}
