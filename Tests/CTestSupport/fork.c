#define _GNU_SOURCE  // syscall
#include "CTestSupport.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// A child that hangs fails its test alone, not the whole run.
#define MAX_SECONDS 120

int fork_and_execute(const char *program) {
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    return child < 0 ? -1 : wait_for_process(child);
}

int fork_and_call(void (*body)(void *), void *context, char *text, size_t size) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(MAX_SECONDS);
        body(context);
        _exit(0);
    }
    close(ends[1]);
    size_t count = 0;
    ssize_t more;
    while (count < size - 1 && (more = read(ends[0], text + count, size - 1 - count)) > 0) count += (size_t)more;
    text[count] = 0;
    close(ends[0]);
    return child < 0 ? -1 : wait_for_process(child);
}

int pidfd_of_process(int process) { return (int)syscall(SYS_pidfd_open, process, 0); }

bool can_signal_thread(int process) { return syscall(SYS_tgkill, process, process, 0) == 0; }

bool can_read_limits(int process) {
    struct rlimit limit;
    return prlimit(process, RLIMIT_NOFILE, NULL, &limit) == 0;
}

int fork_here(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    return child;
}
