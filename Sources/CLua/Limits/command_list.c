#define _GNU_SOURCE  // dup3
#include "Limits/command_list.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t clua_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const int64_t GRACE = 2000000000;  // nanoseconds that a command has to end

// Sends a signal to a process and to the processes that it has started.
static void signal_tree(pid_t process, int signal_number, int depth) {
    char path[64], children[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", process, process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? 0 : read(file, children, sizeof children - 1);
    if (file >= 0) close(file);
    // The children are read first: once the process has ended, they have another parent.
    kill(process, signal_number);
    children[count > 0 ? count : 0] = '\0';
    char *next = children;
    for (long child = strtol(next, &next, 10); child > 0 && depth > 0; child = strtol(next, &next, 10))
        signal_tree((pid_t)child, signal_number, depth - 1);
}

enum { DEPTH = 8 };

static void signal_command(const clua_command *command, int signal_number) {
    siginfo_t information;
    // The host may have reaped the command. Its number may then belong to another process.
    if (waitid(P_PID, (id_t)command->process, &information, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    if (command->has_group)
        kill(-command->process, signal_number);
    else
        signal_tree(command->process, signal_number, DEPTH);
}

void clua_add_command(clua_stop *stop, clua_command *command, int written) {
    clua_lock_stop(stop);
    command->written = written;
    command->body = stop->body;
    if (!command->is_listed) {
        command->is_listed = true;
        command->next = stop->commands;
        stop->commands = command;
    }
    // An earlier request did not find the command.
    if (atomic_load(&stop->requested) != 0 || atomic_load(&stop->raised) != 0) clua_end_commands(stop);
    clua_unlock_stop(stop);
}

void clua_remove_command(clua_stop *stop, clua_command *command) {
    clua_lock_stop(stop);
    clua_command **link = &stop->commands;
    while (*link != command) link = &(*link)->next;
    *link = command->next;
    command->is_listed = false;
    clua_unlock_stop(stop);
}

void clua_end_commands(clua_stop *stop) {
    if (stop->body == NULL) return;
    for (clua_command *command = stop->commands; command != NULL; command = command->next) {
        bool is_due = command->body == stop->body && command->stopped_at == 0;
        if (!is_due || command->cleans_up || command->written >= 0) continue;
        command->stopped_at = clua_nanoseconds();
        signal_command(command, SIGTERM);
        signal_command(command, SIGCONT);  // a suspended process cannot end before it continues
    }
    clua_kill_commands(stop);
}

void clua_kill_commands(clua_stop *stop) {
    for (clua_command *command = stop->commands; command != NULL; command = command->next) {
        bool is_told = command->body == stop->body && command->stopped_at != 0;
        if (is_told && clua_nanoseconds() - command->stopped_at > GRACE) signal_command(command, SIGKILL);
    }
}

// Discards later writes to the descriptor. Writing to a command that has ended would end this process, by SIGPIPE. Returns false if this fails.
static bool discard_writes(int descriptor) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0) return false;
    bool is_done = dup3(null, descriptor, O_CLOEXEC) >= 0;
    close(null);
    return is_done;
}

void clua_disown_commands(clua_stop *stop) {
    clua_lock_stop(stop);
    for (clua_command *command = stop->commands; command != NULL; command = command->next) {
        if (command->body != stop->body) continue;
        command->body = NULL;
        bool is_over = atomic_load(&stop->raised) != 0 && !command->cleans_up;
        if (command->stopped_at == 0 && !is_over) continue;
        // No later call checks whether this command has ended, so it gets no grace.
        if (command->written < 0 || discard_writes(command->written)) signal_command(command, SIGKILL);
    }
    clua_unlock_stop(stop);
}
