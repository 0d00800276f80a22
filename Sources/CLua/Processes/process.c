// The host's side of a worker process.
#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Libraries/Libraries.h"
#include "Limits/Limits.h"
#include "Processes/conversation.h"
#include "stop.h"

static clua_process *process_of(channel *channel) { return (clua_process *)channel; }

// MARK: objects

// reference := number, (0 | 1 kind class-number-or-0 reference-of-the-script-class?)
static bool write_object(channel *channel, parcel_writer *writer, const clua_reference *reference) {
    clua_process *process = process_of(channel);
    uint32_t number;
    bool is_new;
    if (!exports_number(&process->exports, reference->object, reference->kind, &number, &is_new)) return false;
    writer_varint(writer, number);
    writer_byte(writer, is_new);
    if (!is_new) return true;
    writer_varint(writer, (uint64_t)reference->kind);
    const clua_host *host = clua_state_of(process->L)->host;
    const void *key = reference->kind == host->registering.object_kind ? host->registering.class_of(process->L, reference->object) : NULL;
    size_t class = 0;
    while (class < process->class_count && process->classes[class] != key) class++;
    writer_varint(writer, key != NULL && class < process->class_count ? class + 1 : 0);
    void *script_class = clua_object_class_of(reference->object, reference->kind);
    writer_byte(writer, script_class != NULL);
    return script_class == NULL || write_object(channel, writer, &(clua_reference){script_class, host->class_kind, true});
}

static bool read_object(channel *channel, message_reader *reader, clua_reference *reference) {
    const clua_reference *known = exports_find(&process_of(channel)->exports, message_varint(reader));
    if (known == NULL) return false;
    clua_object_retain(known->object);
    *reference = (clua_reference){known->object, known->kind, false};
    return true;
}

// MARK: the life of a process

clua_process *clua_process_new(lua_State *L, int socket) {
    clua_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        close(socket);
        return NULL;
    }
    channel_init(&process->channel, socket);
    process->channel.write_reference = write_object;
    process->channel.read_reference = read_object;
    process->L = L;
    clua_state_of(L)->process = process;
    return process;
}

void clua_process_free(clua_process *process) {
    clua_state_of(process->L)->process = NULL;
    channel_close(&process->channel);
    exports_free(&process->exports);
    free(process->functions);
    free(process->classes);
    free(process);
}

void clua_process_end(clua_process *process) { channel_try_send(&process->channel, MESSAGE_END); }

bool clua_process_computes(const clua_process *process) { return atomic_load(&process->computes); }

bool clua_process_is_lost(const clua_process *process) { return process->is_lost; }
bool clua_process_is_late(const clua_process *process) { return process->channel.is_late; }
bool clua_process_is_busy(const clua_process *process) { return process->depth > 0; }

static int lost(clua_process *process, clua_failure *failure) {
    process->is_lost = true;
    clua_refuse(failure, "the worker process has ended");
    return failure->status = CLUA_PROCESS_LOST;
}

// MARK: requests

typedef struct request {
    request_kind kind;
    const clua_class *class;  // the class of the function; NULL if it has none
    clua_function function;
    int member;
    void *registered;
    clua_parcel arguments;
    clua_reference object;  // of CLASS_CONTENTS
    hook_before before;
    clua_reply reply;
    bool has_values;
    clua_parcel values;  // the values of the reply, if it `has_values`
} request;

static bool has_member(const clua_member *members, size_t count, int member, bool allows_none) {
    if (member == 0) return allows_none;
    for (size_t i = 0; i < count; i++)
        if (members[i].member == member) return true;
    return false;
}

// Finds the function that a request calls. False if there is none.
static bool find_function(const clua_process *process, request *request, uint64_t number, int64_t member) {
    const clua_host *host = clua_state_of(process->L)->host;
    if (member < INT32_MIN || member > INT32_MAX) return false;
    request->member = (int)member;
    if (request->kind <= REQUEST_DESCRIBE) {
        if (number >= host->class_count) return false;
        const clua_class *class = request->class = &host->classes[number];
        switch (request->kind) {
        case REQUEST_CALL:
            request->function = class->call;
            return has_member(class->functions, class->function_count, request->member, false);
        case REQUEST_GET:
            request->function = class->get;
            return request->function != NULL && has_member(class->properties, class->property_count, request->member, true);
        case REQUEST_SET:
            request->function = class->set;
            return request->function != NULL && has_member(class->properties, class->property_count, request->member, true);
        case REQUEST_CLASS_GET:
            request->function = class->class_get;
            return has_member(class->class_properties, class->class_property_count, request->member, true);
        default: request->function = class->describe; return request->function != NULL && request->member == 0;
        }
    }
    switch (request->kind) {
    case REQUEST_MODULE:
        request->function = host->call;
        return has_member(host->functions, host->function_count, request->member, false);
    case REQUEST_EXIT: request->function = host->exit; return true;
    case REQUEST_NEW_OPERATION: request->function = host->new_operation; return true;
    case REQUEST_CLASS_FIELD: request->function = host->assign_class_field; return true;
    case REQUEST_CLASS_CONTENTS: return request->object.object != NULL && request->object.kind == host->class_kind;
    case REQUEST_REGISTERED:
        if (number >= process->function_count) return false;
        request->registered = process->functions[number];
        return true;
    default: return false;
    }
}

// Whether a reply can be sent as it is. The others refer to the stack of the stand-in.
static bool is_complete(const clua_reply *reply) {
    switch (reply->kind) {
    case CLUA_REPLY_VALUES:
    case CLUA_REPLY_COMPLETION:
    case CLUA_REPLY_OBSERVATION:
    case CLUA_REPLY_SET_COMPLETION:
    case CLUA_REPLY_ADD_BODY:
    case CLUA_REPLY_READ:
    case CLUA_REPLY_LINES:
    case CLUA_REPLY_CLASS: return false;
    case CLUA_REPLY_HANDLE: return reply->body_first == 0 && reply->completion_index == 0;
    case CLUA_REPLY_PARCEL:
    case CLUA_REPLY_RESULTS: return reply->parcel != NULL;
    default: return true;
    }
}

// Encodes the top `count` values as the reply.
static void reply_with_values(lua_State *L, request *request, int count) {
    if (clua_send(L, count, CLUA_RESULTS, &request->values) != LUA_OK) lua_error(L);
    request->reply = (clua_reply){.kind = CLUA_REPLY_PARCEL};
    request->has_values = true;
}

// Whether a request makes an operation of the function at stack index 1. In a script's own state, that needs no call of the host.
static bool makes_operation(lua_State *L, const request *request) {
    const clua_deferral *deferral = &clua_state_of(L)->host->deferral;
    return request->kind == REQUEST_CALL && request->class->kind == deferral->kind && request->member == deferral->make_function
        && lua_isfunction(L, 1);
}

// Wraps a function that the stand-in is about to keep. It then runs in the process.
static void keep_functions(lua_State *L, const clua_reply *reply) {
    int index = reply->kind == CLUA_REPLY_OBSERVATION ? (int)reply->integer : reply->completion_index;
    if (index != 0 && (reply->kind == CLUA_REPLY_OBSERVATION || reply->kind == CLUA_REPLY_SET_COMPLETION || reply->kind == CLUA_REPLY_HANDLE))
        clua_state_of(L)->wrap_function(L, index);
}

// Stack: the request as light userdata. Calls the function of the request with its arguments.
static int perform_request(lua_State *L) {
    request *request = lua_touserdata(L, 1);
    lua_settop(L, 0);
    if (clua_decode(L, &request->arguments, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    const clua_host *host = clua_state_of(L)->host;
    request->reply = (clua_reply){.kind = CLUA_REPLY_NOTHING};
    if (request->kind == REQUEST_REGISTERED) {
        int count = host->registering.call(L, request->registered, &request->reply);
        if (count != CLUA_REPLIED) reply_with_values(L, request, count);
    } else if (request->kind == REQUEST_CLASS_CONTENTS) {
        host->class_contents(L, request->object.object, &request->reply);
    } else if (makes_operation(L, request)) {
        reply_with_values(L, request, clua_deferring_function(L, request->class, request->member)(L));
    } else {
        request->function(L, request->member, &request->reply);
    }
    // The function may have run tasks of the process, and these may have set another hook.
    keep_scripts_forbidden(L, &request->before);
    if (request->has_values) return 0;
    keep_functions(L, &request->reply);
    if (request->reply.kind == CLUA_REPLY_SENT) {
        int index = (int)request->reply.integer;
        clua_answer_sent(L, index);
        request->reply = (clua_reply){.kind = CLUA_REPLY_ARGUMENT, .integer = index};
    } else if (!is_complete(&request->reply)) {
        clua_reply reply = request->reply;
        request->reply = (clua_reply){.kind = CLUA_REPLY_NOTHING};
        int count = clua_answer(L, &reply);
        if (reply.kind == CLUA_REPLY_COMPLETION && push_wrapped(L, -1)) lua_replace(L, -2);
        reply_with_values(L, request, count);
    }
    return 0;
}

// Releases a reply, and the object in it. clua_answer, if it was called, has taken the reply out of the request.
static void release_reply(clua_reply *reply) {
    if (reply->kind == CLUA_REPLY_HANDLE || reply->kind == CLUA_REPLY_OBSERVATION) clua_object_release(reply->reference.object);
    clua_reply_free(reply);
}

// Makes the reply to a request that has failed. The error is on top; it is popped.
static void reply_with_error(lua_State *L, int status, request *request) {
    release_reply(&request->reply);
    request->reply = (clua_reply){.kind = CLUA_REPLY_NO_MEMORY};
    if (clua_is_stop(L, status)) {
        request->reply.kind = CLUA_REPLY_STOP;
        request->reply.integer = clua_state_of(L)->stop.raised;
        lua_pop(L, 1);
        return;
    }
    clua_failure failure = {0};
    clua_take_message(L, status, &failure);
    if (failure.status != LUA_ERRMEM) {
        request->reply = (clua_reply){.kind = CLUA_REPLY_ERROR, .bytes = failure.message, .byte_count = failure.message_count};
        failure.message = NULL;
    }
    clua_failure_release(&failure);
}

static void write_reply(clua_process *process, parcel_writer *writer, const request *request) {
    const clua_reply *reply = &request->reply;
    writer_byte(writer, (uint8_t)reply->kind);
    write_signed(writer, reply->integer);
    write_signed(writer, reply->integer2);
    writer_bytes(writer, &reply->number, sizeof reply->number);
    writer_string(writer, reply->bytes, reply->byte_count);
    size_t count = reply->kind == CLUA_REPLY_HANDLE ? 1 : reply->reference_count;
    const clua_reference *references = reply->kind == CLUA_REPLY_HANDLE ? &reply->reference : reply->references;
    writer_varint(writer, count);
    for (size_t i = 0; i < count; i++)
        if (!write_object(&process->channel, writer, &references[i])) writer->failed = true;
    const clua_parcel *parcel = request->has_values ? &request->values : reply->parcel;
    writer_byte(writer, parcel != NULL);
    if (parcel != NULL) write_parcel(&process->channel, writer, parcel);
}

// Answers a request. False if it is not a valid one, or cannot be answered.
static bool answer(lua_State *L, clua_process *process, message_reader *reader) {
    request request = {.kind = message_byte(reader)};
    uint64_t number = message_varint(reader);
    int64_t member = message_signed(reader);
    bool has_object = message_byte(reader) != 0;
    if (has_object && !read_object(&process->channel, reader, &request.object)) return false;
    bool is_valid = read_parcel(&process->channel, reader, &request.arguments) && find_function(process, &request, number, member);
    if (is_valid) {
        if (lua_checkstack(L, LUA_MINSTACK)) {
            lua_pushcfunction(L, perform_request);
            lua_pushlightuserdata(L, &request);
            forbid_scripts(L, &request.before);
            int status = lua_pcall(L, 1, 0, 0);
            if (status != LUA_OK) reply_with_error(L, status, &request);
            allow_scripts(L, &request.before);
        } else {
            request.reply.kind = CLUA_REPLY_NO_MEMORY;
        }
        parcel_writer writer;
        writer_init(&writer);
        write_reply(process, &writer, &request);
        // From here on the process counts as computing. So it can be killed if it does not read the answer.
        atomic_store(&process->computes, true);
        is_valid = channel_send(&process->channel, MESSAGE_ANSWER, &writer);
        writer_free(&writer);
        release_reply(&request.reply);
    }
    clua_parcel_release(&request.values);
    clua_parcel_release(&request.arguments);
    if (request.object.object != NULL) clua_object_release(request.object.object);
    return is_valid;
}

// MARK: tasks

static void print(lua_State *L, clua_process *process, message_reader *reader) {
    int stream = message_byte(reader);
    size_t count;
    const char *bytes = message_string(reader, &count);
    if (reader->failed || (stream != 1 && stream != 2)) return;
    const clua_state *state = clua_state_of(L);
    if (clua_allowance_spend(state->output, count))
        state->host->write(L, stream, bytes, count);
    else
        process->has_printed_too_much = true;
}

// A process that keeps to the protocol has already checked the size itself.
static bool is_of_allowed_size(const clua_process *process, const clua_parcel *parcel) {
    size_t limit = clua_state_of(process->L)->parcel_limit;
    return limit == 0 || clua_parcel_size(parcel) <= limit;
}

// Reads the outcome of a task. Returns its status, which is CLUA_PROCESS_LOST if the process does not keep to the protocol.
static int read_outcome(clua_process *process, message_reader *reader, uint64_t *spent, clua_parcel *results, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    int64_t status = message_signed(reader);
    *spent = message_varint(reader);
    if (status == LUA_OK) {
        if (!read_parcel(&process->channel, reader, results)) return CLUA_PROCESS_LOST;
        if (!is_of_allowed_size(process, results)) {
            clua_parcel_release(results);
            return CLUA_PROCESS_LOST;
        }
        return LUA_OK;
    }
    int stop = message_byte(reader);
    if (status < LUA_ERRRUN || status > LUA_ERRERR || stop > CLUA_STOP_INSTRUCTIONS) return CLUA_PROCESS_LOST;
    failure->status = (int)status;
    failure->stop = stop;
    failure->incomplete = message_byte(reader);
    size_t message_count, traceback_count;
    const char *message = message_string(reader, &message_count), *traceback = message_string(reader, &traceback_count);
    if (!read_parcel(&process->channel, reader, &failure->value)) return CLUA_PROCESS_LOST;
    if (!is_of_allowed_size(process, &failure->value)) {
        clua_parcel_release(&failure->value);
        return CLUA_PROCESS_LOST;
    }
    if (!clua_parcel_charge(&failure->value, clua_state_of(process->L)->ledger) || !clua_make_room(process->L, 0))
        clua_parcel_release(&failure->value);
    failure->message = clua_copy_bytes(message, message_count);
    failure->message_count = failure->message != NULL ? message_count : 0;
    failure->traceback = clua_copy_bytes(traceback, traceback_count);
    failure->traceback_count = failure->traceback != NULL ? traceback_count : 0;
    return failure->status;
}

int process_perform(lua_State *L, clua_process *process, message_kind kind, parcel_writer *writer, uint64_t *spent, clua_parcel *results,
                    clua_failure *failure) {
    process->depth++;
    bool did_compute = atomic_exchange(&process->computes, true);
    bool is_sent = channel_send(&process->channel, kind, writer);
    writer_free(writer);
    int status = CLUA_PROCESS_LOST;
    message_reader reader;
    while (is_sent && channel_receive(&process->channel, &kind, &reader)) {
        for (uint64_t count = message_varint(&reader); count > 0 && !reader.failed; count--)
            exports_release(&process->exports, message_varint(&reader));
        if (reader.failed) break;
        if (kind == MESSAGE_OUTPUT) {
            print(L, process, &reader);
        } else if (kind == MESSAGE_REQUEST) {
            atomic_store(&process->computes, false);
            if (!answer(L, process, &reader)) break;
        } else {
            if (kind == MESSAGE_OUTCOME) status = read_outcome(process, &reader, spent, results, failure);
            break;
        }
    }
    atomic_store(&process->computes, did_compute);
    process->depth--;
    return status == CLUA_PROCESS_LOST ? lost(process, failure) : status;
}

int process_perform_simple(clua_process *process, message_kind kind, parcel_writer *writer, clua_failure *failure) {
    uint64_t spent;
    clua_parcel results = {0};
    int status = process_perform(process->L, process, kind, writer, &spent, &results, failure);
    clua_parcel_release(&results);
    return status;
}

int clua_process_start(clua_process *process, const clua_process_settings *settings, int milliseconds, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    // Both sides are the same program, or at least have the same version of this library; see worker.c.
    writer_bytes(&writer, settings, sizeof *settings);
    // The start has a time limit of its own, because no operation runs yet whose stop could end the process.
    channel_limit_waiting(&process->channel, milliseconds);
    int status = process_perform_simple(process, MESSAGE_SETUP, &writer, failure);
    channel_limit_waiting(&process->channel, 0);
    return status;
}

int clua_process_apply_settings(clua_process *process, const clua_parcel *setting, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    write_parcel(&process->channel, &writer, setting);
    return process_perform_simple(process, MESSAGE_SETTINGS, &writer, failure);
}

int clua_process_run_prelude(clua_process *process, const clua_parcel *prelude, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    write_parcel(&process->channel, &writer, prelude);
    return process_perform_simple(process, MESSAGE_PRELUDE, &writer, failure);
}

int64_t write_allowance(parcel_writer *writer, const clua_allowance *allowance) {
    writer_byte(writer, allowance != NULL);
    if (allowance == NULL) return 0;
    int64_t left = clua_allowance_left(allowance);
    write_signed(writer, left);
    write_signed(writer, clua_allowance_limit(allowance));
    return left;
}

void spend_there(clua_allowance *allowance, int64_t given, uint64_t spent) {
    uint64_t most = (uint64_t)(given < 0 ? 0 : given) + 1;  // by one more than was left, a process says that the limit is exceeded
    clua_allowance_spend(allowance, (size_t)(spent < most ? spent : most));
}

// Counts the results, which the host keeps from now on, or refuses them.
static int count_results(lua_State *L, clua_parcel *results, clua_failure *failure) {
    bool is_counted = clua_parcel_charge(results, clua_state_of(L)->ledger);
    if (is_counted && clua_make_room(L, 0)) return LUA_OK;
    clua_parcel_release(results);
    if (!is_counted || !lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, CLUA_NO_MEMORY);
    clua_take_message(L, clua_refuse_to_keep(L), failure);
    return failure->status;
}

int clua_process_run_body(lua_State *L, clua_process *process, const clua_process_run *run, clua_parcel *results, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    writer_varint(&writer, run->serial);
    if (!write_object(&process->channel, &writer, &(clua_reference){run->body.object, run->body.kind, true})) writer.failed = true;
    writer_byte(&writer, run->body.is_invocation);
    writer_byte(&writer, run->body.omits_operation);
    const char *method = run->body.method != NULL ? run->body.method : "";
    writer_string(&writer, method, strlen(method));
    write_signed(&writer, run->result_limit);
    writer_varint(&writer, run->memory_limit);
    write_signed(&writer, run->instructions);
    int64_t given = write_allowance(&writer, run->shared_instructions);
    write_allowance(&writer, clua_state_of(L)->output);
    writer_varint(&writer, run->processor_seconds);
    write_parcel(&process->channel, &writer, run->parcel);
    uint64_t spent = 0;
    bool printed_before = process->has_printed_too_much;
    process->has_printed_too_much = false;
    int status = process_perform(L, process, MESSAGE_RUN, &writer, &spent, results, failure);
    spend_there(run->shared_instructions, given, spent);
    if (status == LUA_OK && process->has_printed_too_much) {
        clua_parcel_release(results);
        status = clua_refuse(failure, "the limit of output is exceeded (limits.outputBytes)");
    }
    process->has_printed_too_much = printed_before;
    if (status == LUA_OK) status = count_results(L, results, failure);
    if (status == LUA_OK && clua_parcel_reference_count(results) > 0) clua_state_of(L)->host->sent(L, results);
    return status;
}

// MARK: arguments

typedef struct addition {
    const clua_parcel *body;
    const clua_item *arguments;
    size_t count;
    clua_parcel *result;
} addition;

// Stack: the addition as light userdata.
static int add_arguments(lua_State *L) {
    const addition *addition = lua_touserdata(L, 1);
    // The body brings what the script has changed in modules. It must not stay here, also if the last addition has failed.
    clua_undo_changes(L);
    if (clua_decode(L, addition->body, CLUA_FRESH_ENVIRONMENT) != LUA_OK) lua_error(L);
    clua_push_items_here(L, addition->arguments, addition->count);
    if (clua_encode(L, lua_gettop(L) - 1, CLUA_BODY, addition->result) != LUA_OK) lua_error(L);
    clua_undo_changes(L);
    return 0;
}

int clua_add_arguments(lua_State *L, const clua_parcel *body, const clua_item *arguments, size_t count, clua_parcel *result,
                       clua_failure *failure) {
    addition addition = {body, arguments, count, result};
    return clua_protect(L, add_arguments, &addition, 0, failure);
}
