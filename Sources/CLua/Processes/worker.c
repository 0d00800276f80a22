#define _GNU_SOURCE  // signal masks
// The worker process's side: serving the host.
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Libraries/Libraries.h"
#include "Limits/Limits.h"
#include "Processes/asking.h"
#include "Processes/proxies.h"
#include "Transfer/Transfer.h"
#include "process.h"
#include "values.h"

static struct {
    channel channel;
    int control;
    _Atomic(lua_State *) L;
    size_t class_count;
    pid_t process;
} worker;

// The host is gone, or sends wrong messages.
static _Noreturn void leave(void) { _exit(CLUA_WORKER_LEFT); }

channel *worker_channel(void) { return &worker.channel; }

void worker_send(message_kind kind, const parcel_writer *writer) {
    if (getpid() != worker.process) {
        // The host would take the message for one of the parent, which still runs the body.
        fputs("opscript: a process that a body has forked in a worker process must execute a program\n", stderr);
        _exit(1);
    }
    if (!channel_send(&worker.channel, kind, writer)) leave();
}

// MARK: tasks

static void send_outcome(int status, uint64_t spent, clua_parcel *results, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    proxies_write_releases(&writer);
    write_signed(&writer, status);
    writer_varint(&writer, spent);
    if (status == LUA_OK) {
        write_parcel(&worker.channel, &writer, results);
    } else {
        writer_byte(&writer, (uint8_t)failure->stop);
        writer_byte(&writer, (uint8_t)failure->incomplete);
        writer_string(&writer, failure->message != NULL ? failure->message : "", failure->message_count);
        writer_string(&writer, failure->traceback != NULL ? failure->traceback : "", failure->traceback_count);
        write_parcel(&worker.channel, &writer, &failure->value);
    }
    // If memory has run out, the host learns only that the process has ended.
    if (writer.failed) abort();
    worker_send(MESSAGE_OUTCOME, &writer);
    writer_free(&writer);
    clua_parcel_release(results);
    if (status != LUA_OK) clua_failure_release(failure);
}

static void send_status(int status, clua_failure *failure) {
    clua_parcel results = {0};
    send_outcome(status, 0, &results, failure);
}

// Reads a limit that is shared with others; NULL for none.
static clua_allowance *read_allowance(message_reader *reader) {
    if (message_byte(reader) == 0) return NULL;
    int64_t left = message_signed(reader), limit = message_signed(reader);
    clua_allowance *allowance = clua_allowance_rest(left, limit);
    if (allowance == NULL) abort();
    return allowance;
}

// Limits the output of the state to the rest of a limit.
static void limit_output(lua_State *L, clua_allowance *output) {
    clua_allowance_free(clua_state_of(L)->output);
    clua_limit_output(L, output);
}

static void run(lua_State *L, message_reader *reader) {
    uint64_t serial = message_varint(reader);
    clua_reference operation = {0};
    if (!proxies_read(&worker.channel, reader, &operation)) leave();
    clua_body body = {.object = operation.object, .kind = operation.kind};
    body.is_invocation = message_byte(reader) != 0;
    body.omits_operation = message_byte(reader) != 0;
    size_t count;
    const char *method = message_string(reader, &count);
    body.method = count == 0 ? NULL : strncmp(method, "main", count) == 0 ? "main" : "start";
    int result_limit = (int)message_signed(reader);
    size_t memory_limit = (size_t)message_varint(reader);
    int64_t instructions = message_signed(reader);
    clua_allowance *shared = read_allowance(reader), *output = read_allowance(reader);
    clua_limit_processor_time((unsigned)message_varint(reader));
    clua_parcel parcel;
    if (!read_parcel(&worker.channel, reader, &parcel)) leave();
    int64_t left = shared != NULL ? clua_allowance_left(shared) : 0;

    limit_output(L, output);
    clua_suspended_body suspended;
    clua_parcel results = {0};
    clua_failure failure = {0};
    clua_begin_body(L, run_of(serial), &suspended);
    if (shared != NULL || instructions != CLUA_NO_INSTRUCTION_LIMIT) clua_limit_instructions(L, instructions, shared);
    int status = clua_run_body(L, body, &parcel, result_limit, memory_limit, &results, &failure);
    clua_end_body(L, &suspended);
    int64_t spent = shared != NULL ? left - clua_allowance_left(shared) : 0;
    clua_allowance_free(shared);
    clua_parcel_release(&parcel);
    clua_object_release(operation.object);
    send_outcome(status, (uint64_t)spent, &results, &failure);
}

typedef struct callback {
    clua_parcel function, arguments;
} callback;

// Stack: the callback as light userdata.
static int call_function(lua_State *L) {
    const callback *callback = lua_touserdata(L, 1);
    clua_begin_isolation(L);
    int environment = lua_gettop(L) + 1;
    lua_settop(L, lua_gettop(L) + CLUA_DECODING_SLOTS);
    clua_decode_here(L, &callback->function, CLUA_FRESH_ENVIRONMENT);
    if (lua_istable(L, environment)) {
        lua_pushvalue(L, environment);
        clua_set_current_globals(L);
    }
    if (clua_decode(L, &callback->arguments, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) return lua_error(L);
    clua_begin_callback(L, environment + CLUA_DECODING_SLOTS);
    lua_call(L, lua_gettop(L) - environment - CLUA_DECODING_SLOTS, 0);
    clua_end_callback(L);
    return 0;
}

static void call(lua_State *L, message_reader *reader) {
    uint64_t serial = message_varint(reader);
    clua_allowance *shared = read_allowance(reader), *output = read_allowance(reader);
    callback callback;
    if (!read_parcel(&worker.channel, reader, &callback.function) || !read_parcel(&worker.channel, reader, &callback.arguments)) leave();
    int64_t left = shared != NULL ? clua_allowance_left(shared) : 0;
    limit_output(L, output);
    clua_suspended_body suspended;
    clua_failure failure = {0};
    clua_begin_body(L, run_of(serial), &suspended);
    if (shared != NULL) clua_limit_instructions(L, CLUA_NO_INSTRUCTION_LIMIT, shared);
    int status = clua_run_callbacks_apart(L, call_function, &callback, &failure);
    clua_end_body(L, &suspended);
    int64_t spent = shared != NULL ? left - clua_allowance_left(shared) : 0;
    clua_allowance_free(shared);
    clua_parcel_release(&callback.function);
    clua_parcel_release(&callback.arguments);
    clua_parcel results = {0};
    send_outcome(status, (uint64_t)spent, &results, &failure);
}

static clua_named_function read_function(message_reader *reader) {
    size_t count;
    const char *name = message_string(reader, &count);
    char *copy = calloc(1, count + 1);
    if (copy == NULL) abort();
    memcpy(copy, name, count);
    // The number plus 1, because NULL stands for no function.
    return (clua_named_function){copy, (void *)(uintptr_t)(message_varint(reader) + 1)};
}

static const clua_named_function *read_functions(message_reader *reader, size_t *count) {
    *count = (size_t)message_varint(reader);
    clua_named_function *functions = calloc(*count + 1, sizeof *functions);
    if (functions == NULL) abort();
    for (size_t i = 0; i < *count; i++) functions[i] = read_function(reader);
    return functions;
}

const void *worker_class(uint64_t number) { return number > 0 ? (const void *)(uintptr_t)number : NULL; }

// Frees none of the copies, because a registration is permanent.
static void register_something(lua_State *L, message_reader *reader) {
    clua_failure failure = {0};
    switch (message_byte(reader)) {
    case REGISTERED_FUNCTION: return send_status(clua_register(L, read_function(reader), &failure), &failure);
    case REGISTERED_LOADER: return send_status(clua_register_loader(L, read_function(reader).function, &failure), &failure);
    default: {
        size_t count;
        const char *name = message_string(reader, &count);
        char copy[256];
        if (count >= sizeof copy) count = sizeof copy - 1;
        memcpy(copy, name, count);
        copy[count] = '\0';
        clua_object_class class = {.key = worker_class(++worker.class_count), .name = copy};
        class.functions = read_functions(reader, &class.function_count);
        class.methods = read_functions(reader, &class.method_count);
        class.getters = read_functions(reader, &class.getter_count);
        class.setters = read_functions(reader, &class.setter_count);
        class.metamethods = read_functions(reader, &class.metamethod_count);
        class.get_other = read_function(reader).function;
        class.set_other = read_function(reader).function;
        send_status(clua_register_class(L, &class, &failure), &failure);
    }
    }
}

static void apply_settings(lua_State *L, message_reader *reader) {
    clua_parcel setting;
    if (!read_parcel(&worker.channel, reader, &setting)) leave();
    clua_failure failure = {0};
    int status = clua_apply_settings(L, &setting, &failure);
    clua_parcel_release(&setting);
    send_status(status, &failure);
}

static void run_prelude(lua_State *L, message_reader *reader) {
    clua_parcel prelude;
    if (!read_parcel(&worker.channel, reader, &prelude)) leave();
    clua_failure failure = {0};
    int status = clua_run_prelude(L, &prelude, &failure);
    clua_parcel_release(&prelude);
    send_status(status, &failure);
}

void worker_perform(lua_State *L, message_kind kind, message_reader *reader) {
    switch (kind) {
    case MESSAGE_RUN: return run(L, reader);
    case MESSAGE_CALL: return call(L, reader);
    case MESSAGE_REGISTER: return register_something(L, reader);
    case MESSAGE_SETTINGS: return apply_settings(L, reader);
    case MESSAGE_PRELUDE: return run_prelude(L, reader);
    default:  // MESSAGE_END
        asking_ends();
        clua_state_close(L);
        _exit(0);
    }
}

// MARK: the beginning

// Stops runs, on a thread of its own. When the host is gone, ends the process, even if the first thread is busy.
static void *control(void *has_begun) {
    sem_post(has_begun);
    uint64_t stopped = 0;
    clua_stop_message message;
    for (;;) {
        ssize_t count = read(worker.control, &message, sizeof message);
        if (count < 0 && errno == EINTR) continue;
        if (count != sizeof message) leave();
        lua_State *L = atomic_load(&worker.L);
        // The host repeats the message, also for a run that has not begun.
        if (L == NULL || !clua_has_body(L, run_of(message.serial))) continue;
        if (message.serial != stopped)
            clua_request_stop(L, run_of(message.serial), (clua_stop_reason)message.reason);
        else
            clua_repeat_stop(L, run_of(message.serial));
        stopped = message.serial;
    }
    return NULL;
}

static bool start_control(void) {
    // The first thread gets the signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    // A thread that begins needs system calls that are forbidden later. So wait until it has begun.
    sem_t has_begun;
    sem_init(&has_begun, 0, 0);
    pthread_t thread;
    bool is_started = pthread_create(&thread, NULL, control, &has_begun) == 0;
    while (is_started && sem_wait(&has_begun) != 0) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static void set_up(const clua_host *model, message_reader *reader) {
    clua_process_settings settings;
    const uint8_t *bytes = message_bytes(reader, sizeof settings);
    clua_failure failure = {0};
    if (bytes != NULL) memcpy(&settings, bytes, sizeof settings);
    if (bytes == NULL || reader->next != reader->end || settings.protocol != CLUA_PROCESS_PROTOCOL) {
        int status = clua_refuse(&failure, "the executable of the worker process is of another version than its host");
        return send_status(status, &failure);
    }
    lua_State *L = clua_state_new(NULL, asking_host(model), settings.restrictions);
    if (L == NULL) {
        int status = clua_refuse(&failure, "not enough memory for the Lua state of a worker process");
        return send_status(status, &failure);
    }
    clua_share_nothing(L);
    clua_attach_thread(L);
    if (settings.state_limit > 0) clua_limit_state(L, settings.state_limit);
    if (settings.parcel_limit > 0) clua_limit_parcels(L, settings.parcel_limit);
    clua_separate_globals(L);
    clua_state_of(L)->redirects_output = true;
    if (settings.has_seed) clua_seed_random(L, settings.seed, settings.number);
    if (settings.shows_warnings) clua_enable_warnings(L);
    atomic_store(&worker.L, L);
    bool has_control = start_control();
    int error = has_control ? clua_confine(&settings.confinement) : 0;
    int status = LUA_OK;
    if (!has_control) status = clua_refuse(&failure, "a worker process could not start a thread");
    if (error != 0) {
        char text[128];
        snprintf(text, sizeof text, "a worker process could not be confined: %s", strerror(error));
        status = clua_refuse(&failure, text);
    }
    send_status(status, &failure);
}

// Lets the kernel end the process at once at a fault, without the handlers of Swift's runtime. The host reports the fault.
static void leave_faults_to_the_kernel(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
}

_Noreturn void clua_serve(int socket, int control, const clua_host *model) {
    leave_faults_to_the_kernel();
    pid_t host = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != host) leave();
    // A program that a body starts must not answer the host.
    if (fcntl(socket, F_SETFD, FD_CLOEXEC) != 0 || fcntl(control, F_SETFD, FD_CLOEXEC) != 0) leave();
    channel_init(&worker.channel, socket);
    worker.channel.write_reference = proxies_write;
    worker.channel.read_reference = proxies_read;
    worker.channel.trusts_peer = true;
    worker.control = control;
    worker.process = getpid();
    proxies_open();
    message_kind kind;
    message_reader reader;
    while (channel_receive(&worker.channel, &kind, &reader)) {
        if (kind == MESSAGE_SETUP)
            set_up(model, &reader);
        else if (kind == MESSAGE_ANSWER || atomic_load(&worker.L) == NULL)
            break;
        else
            worker_perform(atomic_load(&worker.L), kind, &reader);
    }
    leave();
}
