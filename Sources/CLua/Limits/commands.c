#define _POSIX_C_SOURCE 200809L
#include "Limits/commands.h"

#include <signal.h>
#include <time.h>

int64_t clua_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const int64_t GRACE = 2000000000;  // nanoseconds that a command has to end

void clua_add_command(clua_stop *stop, clua_command *command) {
    clua_lock_stop(stop);
    command->body = stop->body;
    command->next = stop->commands;
    stop->commands = command;
    // Whoever made a request before did not find it.
    if (atomic_load(&stop->requested) != 0) clua_end_commands(stop);
    clua_unlock_stop(stop);
}

void clua_remove_command(clua_stop *stop, clua_command *command) {
    clua_lock_stop(stop);
    clua_command **link = &stop->commands;
    while (*link != command) link = &(*link)->next;
    *link = command->next;
    clua_unlock_stop(stop);
}

void clua_end_commands(clua_stop *stop) {
    for (clua_command *command = stop->commands; command != NULL; command = command->next) {
        if (command->body != stop->body) continue;
        pid_t target = command->has_group ? -command->process : command->process;
        int64_t now = clua_nanoseconds();
        if (command->stopped_at == 0) {
            command->stopped_at = now;
            kill(target, SIGTERM);
            kill(target, SIGCONT);  // a stopped process must continue to end
        } else if (now - command->stopped_at > GRACE) {
            kill(target, SIGKILL);
        }
    }
}
