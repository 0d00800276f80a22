// A libFuzzer target for the host's side of worker processes. The host must answer each message of a process or give the process up, run no
// code of it, and lose nothing. `scripts/fuzz messages` builds and runs it.
//
//   messages --seeds=seeds.lua CORPUS          fuzzes
//   messages --seeds=seeds.lua --write=CORPUS  writes initial conversations into a folder
//
// An input has the messages that the process sends. Each message has its kind (a byte), the number of bytes that follow (two, low byte first),
// and these bytes.
#include <sys/socket.h>
#include <unistd.h>

#include "Processes/conversation.h"
#include "fuzzing.h"
#include "process.h"

enum { MESSAGE_HEADER = 3, MOST_RUNS = 4 };

// A message that does not fit into the socket waits in vain: the other side reads nothing.
enum { MILLISECONDS = 5 };

// MARK: a host that answers in many ways

static char *copy_of(const char *text) {
    char *copy = strdup(text);
    check(copy != NULL, "not enough memory");
    return copy;
}

static void reply_with_text(clua_reply *reply, clua_reply_kind kind) {
    *reply = (clua_reply){.kind = kind, .integer = 1, .bytes = copy_of("text"), .byte_count = 4};
}

static void reply_with_object(clua_reply *reply) {
    retain(&references);
    *reply = (clua_reply){.kind = CLUA_REPLY_HANDLE, .reference = {&references, KIND, true}};
}

static void answer_call(lua_State *L, int member, clua_reply *reply) {
    switch (member) {
    case 1: reply_with_object(reply); break;
    case 2: *reply = (clua_reply){.kind = lua_gettop(L) > 0 ? CLUA_REPLY_ARGUMENT : CLUA_REPLY_NIL, .integer = 1}; break;
    case 3: *reply = (clua_reply){.kind = CLUA_REPLY_VALUES, .integer = lua_gettop(L)}; break;
    case 4: reply_with_text(reply, CLUA_REPLY_ERROR); break;
    default: reply_with_text(reply, CLUA_REPLY_STRING);
    }
}

static void answer_describe(lua_State *L, int member, clua_reply *reply) {
    (void)L, (void)member;
    reply_with_text(reply, CLUA_REPLY_STRING);
}

static void answer_new(lua_State *L, int member, clua_reply *reply) {
    (void)L, (void)member;
    reply_with_object(reply);
}

static int answer_registered(lua_State *L, void *function, clua_reply *reply) {
    (void)function, (void)reply;
    return lua_gettop(L);
}

static const void *class_of(lua_State *L, void *object) {
    (void)L, (void)object;
    return NULL;
}

static void answer_contents(lua_State *L, void *object, clua_reply *reply) {
    (void)L, (void)object;
    *reply = (clua_reply){.kind = CLUA_REPLY_NIL};
}

static void take_output(lua_State *L, int stream, const char *bytes, size_t count) { (void)L, (void)stream, (void)bytes, (void)count; }

static const clua_member members[] = {{"object", 1}, {"first", 2}, {"all", 3}, {"fails", 4}, {"text", 5}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const clua_class classes[] = {{
    .name = "Thing",
    .kind = KIND,
    .functions = members,
    .function_count = COUNT(members),
    .properties = members,
    .property_count = COUNT(members),
    .class_properties = members,
    .class_property_count = COUNT(members),
    .call = answer_call,
    .get = answer_call,
    .set = answer_call,
    .class_get = answer_call,
    .describe = answer_describe,
}};

static const clua_host host = {
    .classes = classes,
    .class_count = COUNT(classes),
    .functions = members,
    .function_count = COUNT(members),
    .call = answer_call,
    .exit = answer_call,
    .sent = sent,
    .class_kind = KIND,
    .new_operation = answer_new,
    .assign_class_field = answer_call,
    .class_contents = answer_contents,
    .registering = {.call = answer_registered, .object_kind = KIND, .class_of = class_of},
    .write = take_output,
};

// MARK: seeds

static bool write_the_object(channel *channel, parcel_writer *writer, const clua_reference *reference) {
    (void)channel, (void)reference;
    writer_varint(writer, 0);  // the operation, which is the only object
    return true;
}

static void put_message(FILE *file, message_kind kind, const parcel_writer *writer) {
    const uint8_t header[MESSAGE_HEADER] = {(uint8_t)kind, (uint8_t)writer->count, (uint8_t)(writer->count >> 8)};
    fwrite(header, 1, sizeof header, file);
    fwrite(writer->bytes, 1, writer->count, file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int success_count;  // bodies that have ended without an error

// Messages carry no frozen values.
static bool travels(int seed) { return clua_parcel_frozen_count(&seeds[seed]) == 0; }

// A conversation: output, a request with the seed as its arguments, an outcome with the seed as its results, and one with the seed as its error.
// The host must understand it: otherwise the fuzzer would test nothing.
static void write_seed(const char *directory, int seed, request_kind kind, int member) {
    channel channel;
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    channel_init(&channel, ends[0]);
    channel.write_reference = write_the_object;
    char *conversation = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&conversation, &size);
    check(file != NULL, "not enough memory");
    parcel_writer writer;

    writer_init(&writer);
    writer_varint(&writer, 0);
    writer_byte(&writer, 1);
    writer_string(&writer, "hello\n", 6);
    put_message(file, MESSAGE_OUTPUT, &writer);
    writer_free(&writer);

    writer_varint(&writer, 0);
    writer_byte(&writer, (uint8_t)kind);
    writer_varint(&writer, 0);
    write_signed(&writer, member);
    writer_byte(&writer, kind == REQUEST_CLASS_CONTENTS);
    if (kind == REQUEST_CLASS_CONTENTS) writer_varint(&writer, 0);
    write_parcel(&channel, &writer, &seeds[seed]);
    put_message(file, MESSAGE_REQUEST, &writer);
    writer_free(&writer);

    for (int status = LUA_OK; status <= LUA_ERRRUN; status += LUA_ERRRUN) {
        writer_varint(&writer, 0);
        write_signed(&writer, status);
        writer_varint(&writer, 100);
        if (status != LUA_OK) {
            writer_byte(&writer, 0);
            writer_byte(&writer, 0);
            writer_string(&writer, "message", 7);
            writer_string(&writer, "traceback", 9);
        }
        write_parcel(&channel, &writer, &seeds[seed]);
        put_message(file, MESSAGE_OUTCOME, &writer);
        writer_free(&writer);
    }
    fclose(file);
    channel_close(&channel);
    close(ends[1]);

    file = open_seed(directory, seed, (int)kind * 10 + member);
    fwrite(conversation, 1, size, file);
    fclose(file);
    int before = success_count;
    LLVMFuzzerTestOneInput((const uint8_t *)conversation, size);
    check(success_count > before || kind != REQUEST_CALL || member == 0, "the host does not understand a conversation");
    free(conversation);
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *directory = begin(*count, *arguments, &host);
    if (directory == NULL) return 0;
    for (int seed = 0; seed < seed_count; seed++)
        for (request_kind kind = REQUEST_CALL; kind <= REQUEST_REGISTERED; kind++)
            for (int member = 0; member <= 3 && travels(seed); member++) write_seed(directory, seed, kind, member);
    exit(0);
}

// MARK: fuzzing

// Puts the messages where the host will read them, and ends the connection after them.
static void send_messages(int socket, const uint8_t *data, size_t size) {
    while (size >= MESSAGE_HEADER) {
        size_t count = data[1] | (size_t)data[2] << 8;
        struct {
            uint64_t size;
            uint32_t kind, unused;
        } header = {count, data[0], 0};
        data += MESSAGE_HEADER;
        size -= MESSAGE_HEADER;
        if (count > size) count = size;
        if (send(socket, &header, sizeof header, MSG_DONTWAIT) != (ssize_t)sizeof header) break;
        if (count > 0 && send(socket, data, count, MSG_DONTWAIT) != (ssize_t)count) break;
        data += count;
        size -= count;
    }
    shutdown(socket, SHUT_WR);
}

// Whether code of the process has run in the host. Only a function in Lua can set the global.
static bool has_run_code(lua_State *L) {
    bool has = lua_getglobal(L, "hasRun") != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int body = 0;
    while (!travels(body)) body++;
    int before = references, ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    lua_State *L = new_state(&host);
    clua_stand_in(L);
    clua_process *process = clua_process_new(L, ends[0]);
    check(process != NULL, "no process");
    channel_limit_waiting(&process->channel, MILLISECONDS);
    send_messages(ends[1], data, size);

    int top = lua_gettop(L);
    clua_process_run run = {
        .body = {.object = &references, .kind = KIND},
        .parcel = &seeds[body],
        .result_limit = LUA_MULTRET,
        .serial = 2,
        .instructions = CLUA_NO_INSTRUCTION_LIMIT,
    };
    for (int i = 0; i < MOST_RUNS && !clua_process_is_lost(process); i++) {
        clua_parcel results = {0};
        clua_failure failure = {0};
        int status = clua_process_run_body(L, process, &run, &results, &failure);
        success_count += status == LUA_OK;
        check(lua_gettop(L) == top, "the stack has something else on it");
        check((status == CLUA_PROCESS_LOST) == clua_process_is_lost(process), "a lost process is not said to be lost");
        clua_parcel_release(&results);
        clua_failure_release(&failure);
    }
    check(!clua_process_is_busy(process), "a task has not ended");
    check(!has_run_code(L), "code of the process has run");
    clua_process_free(process);
    check(luaL_dostring(L, "local t = {} for i = 1, 10 do t[i] = i .. '' end assert(#t == 10)") == LUA_OK, "the state is broken");
    clua_state_close(L);
    close(ends[1]);
    check(references == before, "references are lost");
    return 0;
}
