#define _GNU_SOURCE
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "CTestSupport.h"

int spawn_in_terminal(const char *const *words, const char *const *environment, int columns, int *process) {
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int master;
    pid_t child = forkpty(&master, NULL, NULL, &size);
    if (child == 0) {
        execve(words[0], (char *const *)words, (char *const *)environment);
        _exit(127);
    }
    if (child < 0) return -1;
    fcntl(master, F_SETFD, FD_CLOEXEC);
    *process = child;
    return master;
}

int wait_for_process(int process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
