#include "Processes/asking.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Libraries/Libraries.h"
#include "Limits/Limits.h"
#include "Processes/proxies.h"
#include "worker.h"

static bool has_ended;

void asking_ends(void) { has_ended = true; }

// MARK: the answer

static char *copy_of(const char *bytes, size_t count) {
    char *copy = clua_copy_bytes(bytes, count);
    if (copy == NULL) abort();
    return copy;
}

static void read_answer(message_reader *reader, clua_reply *reply) {
    *reply = (clua_reply){.kind = message_byte(reader)};
    reply->integer = message_signed(reader);
    reply->integer2 = message_signed(reader);
    const uint8_t *number = message_bytes(reader, sizeof reply->number);
    if (number != NULL) memcpy(&reply->number, number, sizeof reply->number);
    const char *text = message_string(reader, &reply->byte_count);
    reply->bytes = copy_of(text, reply->byte_count);
    size_t count = (size_t)message_count(reader, (uint64_t)(reader->end - reader->next) + 1);
    clua_reference *references = calloc(count + 1, sizeof *references);
    if (references == NULL) abort();
    for (size_t i = 0; i < count; i++)
        if (!proxies_read(worker_channel(), reader, &references[i])) _exit(CLUA_WORKER_LEFT);
    if (reply->kind == CLUA_REPLY_HANDLE) {
        reply->reference = references[0];
        free(references);
        free(reply->bytes);
        reply->bytes = NULL;
    } else {
        reply->references = references;
        reply->reference_count = count;
    }
    if (message_byte(reader) != 0) {
        clua_parcel parcel;
        if (!read_parcel(worker_channel(), reader, &parcel)) _exit(CLUA_WORKER_LEFT);
        reply->parcel_owner = proxy_of_parcel(&parcel, &reply->parcel);
        if (reply->parcel_owner == NULL) abort();
    }
}

// Waits for the answer. In between, the host may send tasks: its work for the request may run bodies.
static void receive_answer(lua_State *L, clua_reply *reply) {
    message_kind kind;
    message_reader reader;
    while (channel_receive(worker_channel(), &kind, &reader)) {
        if (kind == MESSAGE_ANSWER) return read_answer(&reader, reply);
        worker_perform(L, kind, &reader);
    }
    _exit(CLUA_WORKER_LEFT);
}

// MARK: the request

// Asks the host to call a function with the values on the stack. `object` is one more argument, or NULL.
static void ask(lua_State *L, request_kind kind, uint64_t number, int member, void *object, clua_reply *reply) {
    static const char ended[] = "the Lua state is closed";
    if (has_ended) {
        *reply = (clua_reply){.kind = CLUA_REPLY_ERROR, .bytes = copy_of(ended, sizeof ended - 1), .byte_count = sizeof ended - 1};
        return;
    }
    clua_parcel arguments = {0};
    int count = object != NULL ? 0 : lua_gettop(L);
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        *reply = (clua_reply){.kind = CLUA_REPLY_NO_MEMORY};
        return;
    }
    if (clua_encode(L, count, CLUA_INVOCATION, &arguments) != LUA_OK) {
        // A stop remains a stop, and a lack of memory remains a memory error.
        size_t length = 0;
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
        *reply = (clua_reply){.kind = CLUA_REPLY_NO_MEMORY};
        if (clua_state_of(L)->stop.raised != CLUA_NOT_STOPPED)
            *reply = (clua_reply){.kind = CLUA_REPLY_STOP, .integer = clua_state_of(L)->stop.raised};
        else if (text != NULL && strcmp(text, CLUA_NO_MEMORY) != 0)
            *reply = (clua_reply){.kind = CLUA_REPLY_ERROR, .bytes = copy_of(text, length), .byte_count = length};
        lua_pop(L, 1);
        return;
    }
    parcel_writer writer;
    writer_init(&writer);
    proxies_write_releases(&writer);
    writer_byte(&writer, (uint8_t)kind);
    writer_varint(&writer, number);
    write_signed(&writer, member);
    writer_byte(&writer, object != NULL);
    if (object != NULL) writer_varint(&writer, proxy_number(object));
    write_parcel(worker_channel(), &writer, &arguments);
    if (writer.failed) abort();
    worker_send(MESSAGE_REQUEST, &writer);
    writer_free(&writer);
    clua_parcel_release(&arguments);
    receive_answer(L, reply);
}

// MARK: functions of the host

// The caller of a class's function does not pass the class. So each class has its own function of each kind.
#define CLASS(NUMBER)                                                                                                             \
    static void call_##NUMBER(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_CALL, NUMBER, member, NULL, reply); }  \
    static void get_##NUMBER(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_GET, NUMBER, member, NULL, reply); }    \
    static void set_##NUMBER(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_SET, NUMBER, member, NULL, reply); }    \
    static void class_get_##NUMBER(lua_State *L, int member, clua_reply *reply) {                                                 \
        ask(L, REQUEST_CLASS_GET, NUMBER, member, NULL, reply);                                                                   \
    }                                                                                                                             \
    static void describe_##NUMBER(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_DESCRIBE, NUMBER, member, NULL, reply); }

#define FUNCTIONS(NUMBER) {call_##NUMBER, get_##NUMBER, set_##NUMBER, class_get_##NUMBER, describe_##NUMBER}

CLASS(0) CLASS(1) CLASS(2) CLASS(3) CLASS(4) CLASS(5) CLASS(6) CLASS(7) CLASS(8) CLASS(9) CLASS(10) CLASS(11)

typedef struct class_functions {
    clua_function call, get, set, class_get, describe;
} class_functions;

static const class_functions functions[] = {
    FUNCTIONS(0), FUNCTIONS(1), FUNCTIONS(2), FUNCTIONS(3), FUNCTIONS(4), FUNCTIONS(5),
    FUNCTIONS(6), FUNCTIONS(7), FUNCTIONS(8), FUNCTIONS(9), FUNCTIONS(10), FUNCTIONS(11),
};

enum { MAX_CLASSES = sizeof functions / sizeof *functions };

static void call_module(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_MODULE, 0, member, NULL, reply); }
static void exit_host(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_EXIT, 0, member, NULL, reply); }
static void new_operation(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_NEW_OPERATION, 0, member, NULL, reply); }
static void assign_class_field(lua_State *L, int member, clua_reply *reply) { ask(L, REQUEST_CLASS_FIELD, 0, member, NULL, reply); }
static void class_contents(lua_State *L, void *object, clua_reply *reply) { ask(L, REQUEST_CLASS_CONTENTS, 0, 0, object, reply); }

static int call_registered(lua_State *L, void *function, clua_reply *reply) {
    ask(L, REQUEST_REGISTERED, (uint64_t)(uintptr_t)function - 1, 0, NULL, reply);
    return CLUA_REPLIED;
}

static const void *class_of(lua_State *L, void *object) {
    (void)L;
    return worker_class(proxy_class(object));
}

// The host's stand-in has the bodies of operations, and seals them itself.
static void sent(lua_State *L, const clua_parcel *parcel) { (void)L, (void)parcel; }
static bool collected(lua_State *L) { return (void)L, false; }

static void write_output(lua_State *L, int stream, const char *bytes, size_t count) {
    (void)L;
    parcel_writer writer;
    writer_init(&writer);
    proxies_write_releases(&writer);
    writer_byte(&writer, (uint8_t)stream);
    writer_string(&writer, bytes, count);
    if (writer.failed) abort();
    worker_send(MESSAGE_OUTPUT, &writer);
    writer_free(&writer);
}

const clua_host *asking_host(const clua_host *model) {
    static clua_class classes[MAX_CLASSES];
    static clua_host host;
    if (model->class_count > MAX_CLASSES) abort();
    for (size_t i = 0; i < model->class_count; i++) {
        classes[i] = model->classes[i];
        classes[i].call = functions[i].call;
        if (classes[i].get != NULL) classes[i].get = functions[i].get;
        if (classes[i].set != NULL) classes[i].set = functions[i].set;
        if (classes[i].class_get != NULL) classes[i].class_get = functions[i].class_get;
        if (classes[i].describe != NULL) classes[i].describe = functions[i].describe;
    }
    host = (clua_host){
        .classes = classes, .class_count = model->class_count,
        .functions = model->functions, .function_count = model->function_count,
        .call = call_module, .exit = exit_host, .sent = sent,
        .class_kind = model->class_kind, .new_operation = new_operation, .assign_class_field = assign_class_field,
        .class_contents = class_contents, .collected = collected,
        .registering = {call_registered, model->registering.object_kind, class_of},
        .write = write_output, .script = model->script,
    };
    return &host;
}
