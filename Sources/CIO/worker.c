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
    sigset_t all;
    sigfillset(&all);
    // The worker is in a group of its own, so Ctrl-C reaches the host only.
    error = child_attributes(&all, &attributes);
    if (error == 0) {
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
    int pidfd = -1;
    if (error == 0) error = watch_child(pid, &pidfd);
    for (int i = 0; i < 2; i++) close_descriptor(&children[i]);
    if (error != 0)
        for (int i = 0; i < 2; i++) close_descriptor(&parents[i]);
    *worker = (cio_worker){pid, pidfd, parents[0], parents[1]};
    return error;
}

void cio_kill_worker(int pidfd) { syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); }

bool cio_worker_has_ended(int pidfd) {
    struct pollfd polled = {pidfd, POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
}

bool cio_await_worker(int pidfd, int milliseconds, cio_end *end) {
    struct pollfd polled = {pidfd, POLLIN, 0};
    int count = 0;
    if (milliseconds > 0)
        do count = poll(&polled, 1, milliseconds);
        while (count < 0 && errno == EINTR);
    bool has_ended = count > 0;
    if (!has_ended) cio_kill_worker(pidfd);
    siginfo_t info;
    int error;
    do error = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) == 0 ? 0 : errno;
    while (error == EINTR);
    if (error != 0)
        *end = (cio_end){-1, 0};
    else if (info.si_code == CLD_EXITED)
        *end = (cio_end){info.si_status, 0};
    else
        *end = (cio_end){-1, info.si_status};
    close_descriptor(&pidfd);
    return has_ended;
}
