#define _GNU_SOURCE  // pipe2, memfd_create
#include <errno.h>
#include <fcntl.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "Libraries/commands_raising.h"
#include "Limits/command_list.h"
#include "libraries.h"
#include "state.h"

// `os.execute` and `io.popen`, whose commands end when their body is stopped. Lua's own call `system` and `popen`. While a command of `system`
// runs, the whole process ignores SIGINT: a signal that arrives meanwhile is lost to all other code, and to the host. And commands of `popen`
// inherit the signals that workers block.

// MARK: what commands write

// What a command writes, on its way to the host, if the state `relays_commands`. It is a file in memory: nobody has to read it in time, and what
// the command leaves running can go on writing.
typedef struct relay {
    int file;  // -1: there is none, and the command writes to the process's own file
    off_t passed_on;
} relay;

static relay make_relay(lua_State *L, bool is_needed) {
    int file = -1;
    if (is_needed && clua_state_of(L)->relays_commands) file = memfd_create("output", MFD_CLOEXEC);
    return (relay){.file = file};
}

// Gives the host what has come.
static void pass_on(lua_State *L, relay *relay, int stream) {
    const clua_state *state = clua_state_of(L);
    char bytes[16384];
    ssize_t count;
    while (relay->file >= 0 && (count = pread(relay->file, bytes, sizeof bytes, relay->passed_on)) > 0) {
        if (clua_allowance_spend(state->output, (size_t)count)) state->host->write(L, stream, bytes, (size_t)count);
        fallocate(relay->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, relay->passed_on, count);
        relay->passed_on += count;
    }
}

static void end_relay(lua_State *L, relay *relay, int stream) {
    pass_on(L, relay, stream);
    if (relay->file >= 0) close(relay->file);
    relay->file = -1;
}

// MARK: starting and waiting

// Whether Ctrl-C in the terminal reaches this process. A command in a process group of its own would not get it, and could not read from the
// terminal.
static bool is_in_foreground(void) {
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) return false;
    bool is = tcgetpgrp(terminal) == getpgrp();
    close(terminal);
    return is;
}

// Starts a command and returns an errno. Its files 0, 1 and 2 are those in `files`, or those of this process where that is -1.
static int start_command(lua_State *L, clua_command *command, const char *text, const int files[3]) {
    extern char **environ;
    char *const arguments[] = {"sh", "-c", (char *)text, NULL};
    const clua_stop *stop = &clua_state_of(L)->stop;
    command->cleans_up = atomic_load(&stop->raised) != 0;
    // A group of its own can be ended with all that the command has started. What runs in no body is not stopped that way.
    command->has_group = stop->body != NULL && !is_in_foreground();
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    sigset_t none;  // workers block signals
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | (command->has_group ? POSIX_SPAWN_SETPGROUP : 0));
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++)
        if (files[i] >= 0) error = posix_spawn_file_actions_adddup2(&actions, files[i], i);
    if (error == 0) error = posix_spawn(&command->process, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

enum { RELAY_MILLISECONDS = 100 };

// Gives the host what a command writes until it ends.
static void pass_on_until_end(lua_State *L, const clua_command *command, relay relays[2]) {
    if (relays[0].file < 0 && relays[1].file < 0) return;
    struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, command->process, 0), .events = POLLIN};
    if (process.fd < 0) return;
    for (int ended = 0; ended == 0 || (ended < 0 && errno == EINTR);) {
        ended = poll(&process, 1, RELAY_MILLISECONDS);
        for (int i = 0; i < 2; i++) pass_on(L, &relays[i], 1 + i);
    }
    close(process.fd);
}

// Waits for a command, and gives the host what it writes meanwhile. Returns its wait status, or -1 with `errno` set.
static int wait_for_command(lua_State *L, clua_command *command, relay relays[2]) {
    clua_stop *stop = &clua_state_of(L)->stop;
    clua_add_command(stop, command, -1);
    pass_on_until_end(L, command, relays);
    siginfo_t information;
    // Its number stays its own until it can no longer be sent a signal.
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
    relay relays[] = {make_relay(L, true), make_relay(L, true)};
    int error = start_command(L, &command, text, (int[]){-1, relays[0].file, relays[1].file});
    int status = error == 0 ? wait_for_command(L, &command, relays) : -1;
    if (error == 0) error = errno;
    for (int i = 0; i < 2; i++) end_relay(L, &relays[i], 1 + i);
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

// A file of `io.popen`, which the library knows as its first part.
typedef struct piped {
    luaL_Stream stream;
    clua_command *command;  // owned; not part of the block, which a script can have freed without a call of `close_command`
    relay relays[2];        // of what does not go to the script
} piped;

static int close_command(lua_State *L) {
    piped *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    fclose(file->stream.f);
    int status = wait_for_command(L, file->command, file->relays);
    int error = errno;
    for (int i = 0; i < 2; i++) end_relay(L, &file->relays[i], 1 + i);
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
    file->relays[0] = make_relay(L, !reads);
    file->relays[1] = make_relay(L, true);
    const int files[] = {reads ? -1 : theirs, reads ? theirs : file->relays[0].file, file->relays[1].file};
    int error = stream == NULL ? errno : start_command(L, file->command, text, files);
    close(theirs);
    if (error == 0) {
        file->stream.f = stream;
        file->stream.closef = close_command;
        clua_add_command(&clua_state_of(L)->stop, file->command, reads ? -1 : ours);
        return 0;
    }
    if (stream != NULL) fclose(stream); else close(ours);
    for (int i = 0; i < 2; i++) end_relay(L, &file->relays[i], 1 + i);
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
