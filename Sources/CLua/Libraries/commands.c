#define _GNU_SOURCE  // pipe2
#include <errno.h>
#include <fcntl.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "Libraries/commands_raising.h"
#include "Limits/command_list.h"
#include "libraries.h"
#include "state.h"

// `os.execute` and `io.popen`, whose commands end when their body is stopped. Lua's versions call `system` and `popen`. While a command of
// `system` runs, the whole process ignores SIGINT: a signal that arrives meanwhile is lost to all other code, and to the host. Commands of
// `popen` inherit the signals that workers block.

// Whether Ctrl-C in the terminal reaches this process. A command in a process group of its own would not get it, and could not read from the
// terminal.
static bool is_in_foreground(void) {
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) return false;
    bool is = tcgetpgrp(terminal) == getpgrp();
    close(terminal);
    return is;
}

// Starts a command and returns an errno. `files` has the command's descriptors 0, 1 and 2; -1 stands for the descriptor of this process.
static int start_command(lua_State *L, clua_command *command, const char *text, const int files[3]) {
    extern char **environ;
    char *const arguments[] = {"sh", "-c", (char *)text, NULL};
    const clua_stop *stop = &clua_state_of(L)->stop;
    command->cleans_up = atomic_load(&stop->raised) != 0;
    // If a command has a process group of its own, a stop also ends all processes that the command has started. No stop ends commands outside of
    // bodies.
    command->has_group = stop->body != NULL && !is_in_foreground();
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    sigset_t none;  // workers block signals
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    // The worker of a cluster ignores SIGPIPE, as programs that systemd starts do. A command must end when its output has no reader.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &pipe);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (command->has_group ? POSIX_SPAWN_SETPGROUP : 0));
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++)
        if (files[i] >= 0) error = posix_spawn_file_actions_adddup2(&actions, files[i], i);
    if (error == 0) error = posix_spawn(&command->process, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

// MARK: output of commands

// The reading ends of pipes to which a command writes its stdout and its stderr.
typedef struct relay {
    int ends[2];
} relay;

enum { RELAY_BYTES = 16384, MOST_LEFT_BYTES = 1 << 20, END_MILLISECONDS = 100 };

// Gives the host bytes that a pipe has, at most RELAY_BYTES. Returns their number. Closes the pipe at its end.
static size_t pass_on(lua_State *L, int *end, int stream) {
    const clua_state *state = clua_state_of(L);
    char bytes[RELAY_BYTES];
    ssize_t count = *end < 0 ? -1 : read(*end, bytes, sizeof bytes);
    if (count > 0) {
        if (clua_allowance_spend(state->output, (size_t)count)) state->host->write(L, stream, bytes, (size_t)count);
        return (size_t)count;
    }
    if (count == 0 || (*end >= 0 && errno != EAGAIN && errno != EINTR)) {
        close(*end);
        *end = -1;
    }
    return 0;
}

static bool has_ended(const clua_command *command) {
    siginfo_t information = {.si_pid = 0};
    return waitid(P_PID, (id_t)command->process, &information, WEXITED | WNOWAIT | WNOHANG) < 0 || information.si_pid != 0;
}

// Gives the host the output of a command until it ends. Processes that the command leaves running cannot write afterwards.
static void relay_output(lua_State *L, const clua_command *command, relay *relay) {
    // An old kernel has no such descriptor. There, this function notices the end a little later.
    int process = (int)syscall(SYS_pidfd_open, command->process, 0);
    while (!has_ended(command)) {
        struct pollfd files[] = {
            {.fd = process, .events = POLLIN}, {.fd = relay->ends[0], .events = POLLIN}, {.fd = relay->ends[1], .events = POLLIN}};
        poll(files, 3, process < 0 ? END_MILLISECONDS : -1);
        for (int i = 0; i < 2; i++)
            if (files[1 + i].revents != 0) pass_on(L, &relay->ends[i], 1 + i);
    }
    if (process >= 0) close(process);
    // A body that is to stop does not wait for a host that is slow.
    bool is_stopped = atomic_load(&clua_state_of(L)->stop.requested) != 0;
    for (int i = 0; i < 2 && !is_stopped; i++) {
        size_t left = MOST_LEFT_BYTES, count;
        while (left > 0 && (count = pass_on(L, &relay->ends[i], 1 + i)) > 0) left -= count < left ? count : left;
    }
}

// MARK: waiting

// Waits for a command. If `relay` is not NULL, gives the host the command's output meanwhile. Returns the wait status, or -1 with `errno` set.
static int wait_for_command(lua_State *L, clua_command *command, relay *relay) {
    clua_stop *stop = &clua_state_of(L)->stop;
    clua_add_command(stop, command, -1);
    if (relay != NULL) relay_output(L, command, relay);
    siginfo_t information;
    // WNOWAIT: the command keeps its number until it is off the list, and no stop can send it a signal.
    while (waitid(P_PID, (id_t)command->process, &information, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    clua_remove_command(stop, command);
    int status = -1;
    while (waitpid(command->process, &status, 0) < 0)
        if (errno != EINTR) return -1;
    errno = 0;  // luaL_execresult would take it for an error of the wait
    return status;
}

static int run_command(lua_State *L, const char *text) {
    clua_command command = {.process = 0};
    relay relay = {{-1, -1}};
    int files[] = {-1, -1, -1};
    bool relays = clua_state_of(L)->relays_commands;
    int error = 0, status = -1;
    for (int i = 0; i < 2 && relays && error == 0; i++) {
        int ends[2];
        error = pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? errno : 0;
        if (error != 0) break;
        relay.ends[i] = ends[0];
        files[1 + i] = ends[1];
    }
    if (error == 0) error = start_command(L, &command, text, files);
    bool has_started = error == 0;
    for (int i = 1; i < 3; i++)
        if (files[i] >= 0) close(files[i]);
    if (has_started) {
        status = wait_for_command(L, &command, relays ? &relay : NULL);
        error = errno;
    }
    for (int i = 0; i < 2; i++)
        if (relay.ends[i] >= 0) close(relay.ends[i]);
    errno = error;
    return status;
}

// MARK: the functions of the libraries

int clua_execute_command(lua_State *L) {
    const char *text = luaL_optstring(L, 1, NULL);
    if (text != NULL) return luaL_execresult(L, run_command(L, text));
    lua_pushboolean(L, run_command(L, "exit 0") == 0);  // whether there is a shell
    return 1;
}

// A file of `io.popen`. Lua's library sees only its first part.
typedef struct piped {
    luaL_Stream stream;
    clua_command *command;  // owned; a block of its own, because a script can get the file freed without a call of `close_command`
} piped;

static int close_command(lua_State *L) {
    piped *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    fclose(file->stream.f);
    int status = wait_for_command(L, file->command, NULL);
    int error = errno;
    free(file->command);
    errno = error;
    return luaL_execresult(L, status);
}

// Returns an errno.
static int open_pipe(lua_State *L, piped *file, const char *text, bool reads) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    int ours = ends[reads ? 0 : 1], theirs = ends[reads ? 1 : 0];
    FILE *stream = fdopen(ours, reads ? "r" : "w");
    const int files[] = {reads ? -1 : theirs, reads ? theirs : -1, -1};
    int error = stream == NULL ? errno : start_command(L, file->command, text, files);
    close(theirs);
    if (error == 0) {
        file->stream.f = stream;
        file->stream.closef = close_command;
        clua_add_command(&clua_state_of(L)->stop, file->command, reads ? -1 : ours);
        return 0;
    }
    if (stream != NULL)
        fclose(stream);
    else
        close(ours);
    return error;
}

int clua_open_command(lua_State *L) {
    const char *text = luaL_checkstring(L, 1);
    const char *mode = luaL_optstring(L, 2, "r");
    luaL_argcheck(L, (*mode == 'r' || *mode == 'w') && mode[1] == '\0', 2, "invalid mode");
    piped *file = lua_newuserdatauv(L, sizeof *file, 0);
    file->stream.closef = NULL;  // not open yet
    luaL_setmetatable(L, LUA_FILEHANDLE);
    file->command = calloc(1, sizeof *file->command);
    errno = file->command == NULL ? ENOMEM : open_pipe(L, file, text, *mode == 'r');
    if (errno == 0) return 1;
    int error = errno;
    free(file->command);
    errno = error;
    return luaL_fileresult(L, 0, text);
}
