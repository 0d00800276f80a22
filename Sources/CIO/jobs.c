#include "jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "CIO.h"
#include "groups.h"
#include "spawn.h"

enum { SOON = 10000000 };  // nanoseconds until a limit that is over during a stop is checked again

static atomic_bool is_stopping;
static _Atomic uint64_t stopped;  // nanoseconds that this process was stopped, in all

// The loan. The lender changes it while no program has the terminal. The descriptor stays open until the next loan, because a start that has failed may
// be tried again.
static int terminal = -1;
static _Atomic(pid_t) holder;  // the process group that has the terminal; 0: this process
static struct termios ours, theirs;

// MARK: the terminal

bool terminal_exists(void) {
    int descriptor = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return false;
    close(descriptor);
    return true;
}

int terminal_descriptor(void) { return terminal; }

// The standard descriptors know the terminal by its name. A pseudo-terminal that relays output is not the controlling terminal.
static int open_terminal(void) {
    for (int i = 0; i < 3; i++)
        if (tcgetpgrp(i) >= 0 && (fcntl(i, F_GETFL) & O_ACCMODE) == O_RDWR) return fcntl(i, F_DUPFD_CLOEXEC, 10);
    int low = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (low < 0) return -1;
    int descriptor = fcntl(low, F_DUPFD_CLOEXEC, 10);
    close(low);
    return descriptor;
}

int cio_terminal_lend(void) {
    close_descriptor(&terminal);
    terminal = open_terminal();
    if (terminal < 0) return ENOTTY;
    int error = tcgetpgrp(terminal) == getpgrp() ? 0 : EPERM;
    if (error == 0 && tcgetattr(terminal, &ours) != 0) error = ENOTTY;
    if (error != 0) close_descriptor(&terminal);
    return error;
}

void terminal_is_lent(pid_t leader) { holder = leader; }

// A process in the background may do this only while it blocks SIGTTOU. Async-signal-safe.
static void set_foreground(pid_t leader, const struct termios *modes) {
    sigset_t output, before;
    sigemptyset(&output);
    sigaddset(&output, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &output, &before);
    tcsetattr(terminal, TCSANOW, modes);
    tcsetpgrp(terminal, leader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// The program may have given the terminal to a group of its own, as shells do. The shell of this process may have given it to another job meanwhile.
static bool is_lent(pid_t leader) {
    pid_t present = tcgetpgrp(terminal);
    return present == leader || (present != getpgrp() && ((kill(-present, 0) != 0 && errno == ESRCH) || groups_have(present)));
}

void terminal_take_back(void) {
    pid_t leader = atomic_exchange(&holder, 0);
    if (terminal >= 0 && is_lent(leader)) set_foreground(getpgrp(), &ours);
}

// MARK: stopping

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t stopped_so_far(void) { return stopped; }

uint64_t stopped_time(uint64_t *counted) {
    if (is_stopping) return SOON;
    uint64_t more = stopped - *counted;
    *counted += more;
    return more;
}

// Returns when this process continues.
static void stop_self(void) {
    struct sigaction before, by_default = {.sa_handler = SIG_DFL};
    sigset_t stop, mask;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigaction(SIGTSTP, NULL, &before);
    if (before.sa_handler == SIG_IGN) return;
    sigaction(SIGTSTP, &by_default, NULL);
    pthread_sigmask(SIG_UNBLOCK, &stop, &mask);
    raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGTSTP, &before, NULL);
}

void stop_job(void) {
    if (atomic_exchange(&is_stopping, true)) return;
    int error = errno;
    uint64_t begin = nanoseconds();
    pid_t leader = holder;
    bool is_ours = leader != 0 && is_lent(leader), has_modes = is_ours && tcgetattr(terminal, &theirs) == 0;
    if (is_ours) set_foreground(getpgrp(), &ours);
    groups_signal(SIGTSTP);
    stop_self();
    // After `bg`, the program stays without the terminal, and is stopped again when it uses that.
    if (has_modes && tcgetpgrp(terminal) == getpgrp()) set_foreground(leader, &theirs);
    groups_signal(SIGCONT);
    stopped += nanoseconds() - begin;
    is_stopping = false;
    errno = error;
}

static void on_stop(int signal_number) {
    (void)signal_number;
    stop_job();
}

void cio_handle_keys(void) {
    struct sigaction present, on_tstp = {.sa_handler = on_stop, .sa_flags = SA_RESTART}, by_default = {.sa_handler = SIG_DFL};
    if (sigaction(SIGTSTP, NULL, &present) == 0 && present.sa_handler == SIG_DFL) sigaction(SIGTSTP, &on_tstp, NULL);
    // The handler of Swift describes a crash.
    if (sigaction(SIGQUIT, NULL, &present) == 0 && present.sa_handler != SIG_IGN) sigaction(SIGQUIT, &by_default, NULL);
}

// MARK: the end by a signal

static void kill_process(const group *group, pid_t process, bool has_left, void *context) {
    (void)group;
    (void)context;
    if (has_left) kill(process, SIGKILL);
}

void cio_kill_programs(void) {
    int error = errno;
    if (holder != 0 && is_lent(holder)) set_foreground(getpgrp(), &ours);
    groups_visit(kill_process, NULL);
    groups_signal(SIGKILL);
    errno = error;
}
