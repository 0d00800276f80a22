#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jobs.h"
#include "jobserver.h"
#include "search.h"

extern char **environ;

enum { WATCH_ATTEMPTS = 200 };

void close_descriptor(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

// Moves a descriptor above the standard ones, which dup2 overwrites in the child.
static int above_standard(int descriptor) {
    if (descriptor < 0 || descriptor > 2) return descriptor;
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    int error = errno;
    close(descriptor);
    errno = error;
    return moved;
}

static int open_file(const char *path, int flags) { return above_standard(open(path, flags | O_CLOEXEC | O_NOCTTY, 0666)); }

// The parent keeps one end: 0 to read, 1 to write.
static bool open_pipe(int parent_end, int *parent, int *child) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    *parent = above_standard(ends[parent_end]);
    *child = above_standard(ends[1 - parent_end]);
    return *parent >= 0 && *child >= 0;
}

static int copy_terminal(void) { return fcntl(terminal_descriptor(), F_DUPFD_CLOEXEC, 3); }

// Descriptors opened for the child, and closed once it has started.
typedef struct opened {
    int standard[3];  // -1 for the parent's own
    int directory;
    int spare;  // becomes free for the descriptor that watches the child
} opened;

static void close_opened(opened *opened) {
    for (int i = 0; i < 3; i++) close_descriptor(&opened->standard[i]);
    close_descriptor(&opened->directory);
    close_descriptor(&opened->spare);
}

static bool open_input(const cio_program *program, child *child, int *descriptor, cio_start_error *error) {
    switch (program->input_kind) {
    case CIO_INPUT_INHERIT: return true;
    case CIO_TEXT: return open_pipe(1, &child->input, descriptor);
    case CIO_INPUT_PIPE: return open_pipe(1, &child->pipes[0], descriptor);
    case CIO_INPUT_DESCRIPTOR: *descriptor = fcntl(program->input_descriptor, F_DUPFD_CLOEXEC, 3); break;
    case CIO_INPUT_TERMINAL: *descriptor = copy_terminal(); break;
    case CIO_INPUT_NULL: *descriptor = open_file("/dev/null", O_RDONLY); break;
    case CIO_INPUT_FILE: error->path = program->input; *descriptor = open_file(program->input, O_RDONLY);
    }
    if (*descriptor < 0) return false;
    error->path = NULL;
    return true;
}

static bool open_all(const cio_program *program, child *child, opened *opened, cio_start_error *error) {
    if (!open_input(program, child, &opened->standard[0], error)) return false;
    for (int i = 0; i < 2; i++) {
        const cio_output *output = &program->outputs[i];
        int *descriptor = &opened->standard[i + 1];
        switch (output->kind) {
        case CIO_INHERIT:
            // This process's own may be a pseudo-terminal that relays output.
            if (!program->has_terminal || !isatty(i + 1)) continue;
            *descriptor = copy_terminal();
            break;
        case CIO_CAPTURE:
            if (!open_pipe(0, &child->outputs[i], descriptor)) return false;
            continue;
        case CIO_PIPE:
            if (!open_pipe(0, &child->pipes[i + 1], descriptor)) return false;
            continue;
        case CIO_LABEL:
            if (!open_pipe(0, &child->labels[i], descriptor)) return false;
            continue;
        case CIO_STDOUT: *descriptor = fcntl(opened->standard[1] >= 0 ? opened->standard[1] : 1, F_DUPFD_CLOEXEC, 3); break;
        case CIO_NULL: *descriptor = open_file("/dev/null", O_WRONLY); break;
        case CIO_FILE:
        case CIO_APPEND:
            error->path = output->path;
            // One position for both; stdout decides whether it is added to.
            if (i == 1 && program->outputs[0].path != NULL && strcmp(output->path, program->outputs[0].path) == 0)
                *descriptor = fcntl(opened->standard[1], F_DUPFD_CLOEXEC, 3);
            else
                *descriptor = open_file(output->path, O_WRONLY | O_CREAT | (output->kind == CIO_APPEND ? O_APPEND : O_TRUNC));
        }
        if (*descriptor < 0) return false;
        error->path = NULL;
    }
    if (program->directory != NULL) {
        error->path = program->directory;
        opened->directory = open_file(program->directory, O_PATH | O_DIRECTORY);
        if (opened->directory < 0) return false;
        error->path = NULL;
    }
    return (opened->spare = open_file("/dev/null", O_RDONLY)) >= 0;
}

static size_t name_length(const char *variable) { return strcspn(variable, "="); }

static bool same_name(const char *left, const char *right) {
    size_t length = name_length(left);
    return length == name_length(right) && memcmp(left, right, length) == 0;
}

// Returns the caller's variables with the changes, and one more. The array is malloc'ed, the strings are borrowed.
static char **changed_environment(const char *const *changes, const char *more) {
    size_t count = 0, change_count = 0;
    while (environ != NULL && environ[count] != NULL) count++;
    while (changes[change_count] != NULL) change_count++;
    char **result = malloc((count + change_count + 2) * sizeof *result);
    if (result == NULL) return NULL;
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_changed = same_name(environ[i], more);
        for (size_t j = 0; j < change_count && !is_changed; j++) is_changed = same_name(environ[i], changes[j]);
        if (!is_changed) result[filled++] = environ[i];
    }
    for (size_t j = 0; j < change_count; j++)
        if (changes[j][name_length(changes[j])] == '=' && !same_name(changes[j], more)) result[filled++] = (char *)changes[j];
    result[filled++] = (char *)more;
    result[filled] = NULL;
    return result;
}

int child_attributes(const sigset_t *reset, posix_spawnattr_t *attributes) {
    int error = posix_spawnattr_init(attributes);
    if (error != 0) return error;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, reset);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    return 0;
}

int look_at_child(pid_t pid, int options, int *status) {
    siginfo_t info = {.si_pid = 0};
    int found;
    do {
        found = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | options);
    } while (found < 0 && errno == EINTR);
    if (found == 0 && info.si_pid == 0) return 0;
    *status = found < 0 ? W_STOPCODE(0) : info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status;
    return found < 0 ? -1 : 1;
}

void reap_child(pid_t pid) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

int watch_child(pid_t pid, int *pidfd) {
    int error = 0;
    // The child runs already, so that this is no moment to give up: another thread may have taken the descriptor that was kept free for this.
    for (int i = 0; i < WATCH_ATTEMPTS; i++) {
        *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (*pidfd >= 0) return 0;
        error = errno;
        if (error != EMFILE && error != ENFILE) break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    // Not the error of a lack of descriptors, after which the program would be started again.
    if (error == EMFILE || error == ENFILE) error = ECHILD;
    kill(-pid, SIGKILL);
    reap_child(pid);
    return error;
}

// Returns 0 or an errno. glibc's posix_spawn does not copy the caller's memory, and returns once the program has started or failed to.
static int spawn_with(const cio_program *program, char **environment, const opened *opened, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    // Signals that a parent process may have ignored, and that a program expects to have their default effect.
    static const int expected[] = {SIGPIPE, SIGTERM, SIGCHLD, SIGXFSZ};
    sigset_t reset;
    sigemptyset(&reset);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) sigaddset(&reset, expected[i]);
    char found[PATH_MAX];
    const char *file = find_program(program, opened->directory, found);
    error = file == NULL ? errno : child_attributes(&reset, &attributes);
    if (error == 0) {
        // The child does this itself, so that it is in the foreground before the program begins.
        if (program->has_terminal) error = posix_spawn_file_actions_addtcsetpgrp_np(&actions, terminal_descriptor());
        for (int i = 0; i < 3 && error == 0; i++)
            if (opened->standard[i] >= 0) error = posix_spawn_file_actions_adddup2(&actions, opened->standard[i], i);
        if (error == 0 && opened->directory >= 0) error = posix_spawn_file_actions_addfchdir_np(&actions, opened->directory);
        // Files that scripts have opened lack the close-on-exec flag.
        if (error == 0 && program->jobserver != NULL) error = jobserver_pass_on(program->jobserver, &actions);
        if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions, jobserver_first_closed(program->jobserver));
        if (error == 0)
            error = posix_spawnp(pid, file, &actions, &attributes, (char *const *)program->arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Returns 0 or an errno.
static int start(const cio_program *program, group *group, child *child, opened *opened, cio_start_error *error) {
    if (!open_all(program, child, opened, error)) return errno;
    char mark[MARK_SIZE];
    char **environment = changed_environment(program->environment, group_variable(group, mark));
    if (environment == NULL) return ENOMEM;
    int failure = spawn_with(program, environment, opened, &child->pid);
    free(environment);
    if (failure == 0) group->leader = child->pid;
    // The descriptors of the child make room for the one that watches it.
    close_opened(opened);
    return failure != 0 ? failure : watch_child(child->pid, &child->exit);
}

void close_child(child *child) {
    close_descriptor(&child->input);
    for (int i = 0; i < 2; i++) {
        close_descriptor(&child->outputs[i]);
        close_descriptor(&child->labels[i]);
    }
    for (int i = 0; i < 3; i++) close_descriptor(&child->pipes[i]);
}

bool spawn(const cio_program *program, group *group, child *child, cio_start_error *error) {
    opened opened = {{-1, -1, -1}, -1, -1};
    child->pid = 0;
    child->exit = child->input = -1;
    for (int i = 0; i < 2; i++) child->outputs[i] = child->labels[i] = -1;
    for (int i = 0; i < 3; i++) child->pipes[i] = -1;
    error->path = NULL;
    error->error = start(program, group, child, &opened, error);
    close_opened(&opened);
    if (error->error == 0) return true;
    close_child(child);
    return false;
}
