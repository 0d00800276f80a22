// Makes each allocation fail in turn while values are sent, including the allocations in C. `scripts/fuzz memory` builds and runs it.
//
//   memory seeds.lua
//
// Each step is repeated with allocation n failing, n = 0, 1, 2 …, until none fails. In the first series only allocation n and the next one fail,
// because Lua tries once more after a collection; in the second series all later ones fail, too. A failed step must leave the state as it was.
// AddressSanitizer looks for leaks.
#include <stdbool.h>
#include <stdio.h>

#include "CLua.h"
#include "Objects/object_raising.h"
#undef malloc
#undef realloc
#undef calloc
#undef strdup

static size_t before;      // the number of allocations that still succeed
static int left;           // the number of failures to come
static bool has_failed;

static bool fails(void) {
    if (left == 0) return false;
    if (before > 0) {
        before--;
        return false;
    }
    left--;
    has_failed = true;
    return true;
}

static size_t size_of(const void *block);

// The C library knows the size of a block, so shrinking it never fails, as Lua requires.
void *failing_realloc(void *block, size_t size) {
    if ((block == NULL || size > size_of(block)) && fails()) return NULL;
    return realloc(block, size);
}

void *failing_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
char *failing_strdup(const char *text) { return fails() ? NULL : strdup(text); }

size_t malloc_usable_size(void *block);
static size_t size_of(const void *block) { return malloc_usable_size((void *)block); }

static int references;  // references to the host's object
static int many[300];   // references to other objects
static void retain(void *object) { ++*(int *)object; }
static void release(void *object) { --*(int *)object; }

static void check(bool is_right, const char *what, int step, size_t number) {
    if (is_right) return;
    fprintf(stderr, "memory: step %d, allocation %zu: %s\n", step, number, what);
    abort();
}

// The number of the member selects the answer, so that every kind of answer occurs.
static void call(lua_State *L, int member, clua_reply *reply) {
    (void)L;
    switch (member) {
    case 2: reply->kind = CLUA_REPLY_HANDLES; break;
    case 3: reply->kind = CLUA_REPLY_PROGRESS; return;
    case 4: reply->kind = CLUA_REPLY_ERROR; break;
    case 5:
        reply->kind = CLUA_REPLY_HANDLE;
        reply->reference = (clua_reference){&references, 1, false};
        retain(&references);
        return;
    default: reply->kind = CLUA_REPLY_STRING; break;
    }
    reply->bytes = strdup("a text that no state has yet, and that is long");
    reply->byte_count = strlen(reply->bytes);
    reply->references = malloc(sizeof *reply->references);
    *reply->references = (clua_reference){&references, 1, false};
    reply->reference_count = 1;
    retain(&references);
}

static void sent(lua_State *L, const clua_parcel *parcel) { (void)L, (void)parcel; }

static const clua_member functions[] = {{"text", 1}, {"handles", 2}, {"progress", 3}, {"wrong", 4}, {"new", 5}};
static const clua_class class = {
    .name = "Object", .kind = 1, .functions = functions, .function_count = 5, .properties = functions, .property_count = 5,
    .call = call, .get = call, .set = call, .class_get = call, .describe = call,
};
static int text_member = 1;

static int call_registered(lua_State *L, void *function, clua_reply *reply) {
    memset(reply, 0, sizeof *reply);
    call(L, *(const int *)function, reply);
    return CLUA_REPLIED;
}

static const void *class_of(lua_State *L, void *object) { return (void)L, (void)object, &class; }

static const clua_host host = {
    .classes = &class, .class_count = 1, .functions = functions, .function_count = 5, .call = call, .sent = sent,
    .registering = {call_registered, 2, class_of}};

static const char calls[] =
    "local o = opscript.Object\n"
    "pcall(opscript.wrong)\n"
    "local handle = o.new()\n"
    "handle.text, handle.stored = 1, {}\n"
    "return opscript.text(), #opscript.handles(), opscript.progress(), handle.unknown, tostring(handle)";

// A step leaves the stack as it was. It returns false when memory was lacking.
typedef bool step(lua_State *L, clua_parcel *parcel);

static bool failed(lua_State *L, int status, clua_failure *failure) {
    (void)L;
    bool is_memory = status == LUA_ERRMEM || failure->status == LUA_ERRMEM || failure->message == NULL
        || strstr(failure->message, "not enough memory") != NULL;
    if (status != LUA_OK && !is_memory) fprintf(stderr, "memory: %s\n", failure->message);
    check(status == LUA_OK || is_memory, "another error", 0, 0);
    clua_failure_release(failure);
    return status != LUA_OK;
}

// Encodes all values on the stack.
static bool encode(lua_State *L, clua_parcel *parcel) {
    clua_failure failure = {0};
    int count = lua_gettop(L);
    for (int i = 1; i <= count; i++) lua_pushvalue(L, i);
    int status = clua_send(L, count, CLUA_BODY, parcel);
    if (status != LUA_OK) clua_take_message(L, status, &failure);
    return !failed(L, status, &failure);
}

static bool decode(lua_State *L, clua_parcel *parcel) {
    clua_failure failure = {0};
    int status = clua_decode(L, parcel, CLUA_CURRENT_ENVIRONMENT);
    if (status != LUA_OK) clua_take_message(L, status, &failure);
    return !failed(L, status, &failure);
}

// Makes the key of a parcel, and stores the parcel. `parcel` must be readable, so each failure is a lack of memory.
static bool keep(lua_State *L, clua_parcel *parcel) {
    (void)L;
    clua_key key;
    clua_key_status status = clua_key_make(parcel, CLUA_BODY, NULL, &key);
    check(status != CLUA_KEY_MALFORMED, "a parcel without a key", 0, 0);
    clua_key_free(&key);
    // A parcel with functions in frozen values has no key.
    if (status == CLUA_KEY_UNSTABLE) return true;
    uint8_t *bytes;
    size_t count;
    clua_parcel again = {0};
    const char *refusal = clua_stored_write(parcel, &bytes, &count);
    bool is_kept = status == CLUA_KEY_MADE && (refusal == NULL ? clua_stored_read(bytes, count, &again) : *refusal != '\0');
    clua_parcel_release(&again);
    free(bytes);
    return is_kept;
}

// Writes a parcel for another machine, and reads its frozen values back. The host itself sends objects and long strings.
static bool travel(lua_State *L, clua_parcel *parcel) {
    (void)L;
    uint8_t *bytes;
    size_t count;
    if (!clua_wire_write(parcel, NULL, &bytes, &count)) return false;
    free(bytes);
    for (size_t i = 0; i < clua_parcel_frozen_count(parcel); i++) {
        const char *refusal;
        if (!clua_wire_write_frozen(clua_parcel_frozen(parcel, i), NULL, &bytes, &count, &refusal)) return false;
        const struct frozen_table *table = clua_wire_read_frozen(bytes, count, NULL);
        free(bytes);
        if (table == NULL) return false;
        clua_wire_release_frozen(table);
    }
    return true;
}

static bool run(lua_State *L, clua_parcel *parcel) {
    clua_parcel results = {0};
    clua_failure failure = {0};
    clua_body body = {.object = &references, .kind = 1};
    int status = clua_run_body(L, body, parcel, LUA_MULTRET, 0, &results, &failure);
    clua_parcel_release(&results);
    return !failed(L, status, &failure);
}

static bool script(lua_State *L, clua_parcel *parcel) {
    (void)parcel;
    clua_failure failure = {0};
    int status = clua_load_string(L, calls, sizeof calls - 1, "=calls", &failure);
    if (status == LUA_OK) status = clua_call_script(L, 0, LUA_MULTRET, &failure);
    return !failed(L, status, &failure);
}

static bool host_calls(lua_State *L, clua_parcel *parcel) {
    clua_failure failure = {0};
    const char *arguments[] = {"opscript", "script.lua", "argument"};
    const clua_item items[] = {{.type = LUA_TTABLE, .count = 1}, {.type = LUA_TSTRING, .bytes = "key", .count = 3},
                               {.type = LUA_TUSERDATA, .kind = 1, .object = &references}};
    const clua_item object[] = {{.type = LUA_TUSERDATA, .kind = 2, .object = &many[0]}};
    const clua_named_function members[] = {{"text", &text_member}};
    const clua_object_class object_class = {
        .key = &class, .name = "Registered", .functions = members, .function_count = 1, .methods = members, .method_count = 1,
        .getters = members, .getter_count = 1, .metamethods = members, .metamethod_count = 1, .get_other = &text_member,
        .set_other = &text_member};
    int status = clua_register(L, (clua_named_function){"registered", &text_member}, &failure);
    if (status == LUA_OK) status = clua_register_class(L, &object_class, &failure);
    if (status == LUA_OK) status = clua_register_loader(L, &text_member, &failure);
    if (status == LUA_OK) status = clua_push_named(L, "Registered.text", &failure);
    if (status == LUA_OK) status = clua_push_items(L, object, 1, &failure);
    if (status == LUA_OK) status = clua_set_arguments(L, arguments, 3, 1, &failure);
    if (status == LUA_OK) status = clua_require(L, "string", "text", &failure);
    if (status == LUA_OK) status = clua_push_items(L, items, 1, &failure);
    if (status == LUA_OK) status = clua_pin(L, &references, 1, 0, &failure);
    clua_unpin(L, &references);
    for (clua_setting setting = CLUA_PATHS; setting <= CLUA_LOADERS; setting++) {
        unsigned changed = clua_changed_settings(L);
        if (status == LUA_OK) status = clua_encode_settings(L, setting, parcel, &failure);
        // Settings that were not encoded are encoded for the next operation.
        if (status != LUA_OK && clua_changed_settings(L) != changed) abort();
        if (status == LUA_OK) status = clua_apply_settings(L, parcel, &failure);
        clua_parcel_release(parcel);
    }
    if (status == LUA_OK) lua_settop(L, 1);
    return !failed(L, status, &failure);
}

static const char collect[] = "collectgarbage() collectgarbage()";

// Pins many handles for a moment, so that their tables grow and shrink.
static bool handles_go(lua_State *L, clua_parcel *parcel) {
    (void)parcel;
    clua_failure failure = {0};
    int status = LUA_OK;
    for (size_t i = 0; i < sizeof many / sizeof *many && status == LUA_OK; i++) {
        status = clua_pin(L, &many[i], 1, 0, &failure);
        clua_unpin(L, &many[i]);
    }
    if (status == LUA_OK) status = clua_load_string(L, collect, sizeof collect - 1, "=collect", &failure);
    if (status == LUA_OK) status = clua_call_script(L, 0, 0, &failure);
    return !failed(L, status, &failure);
}

static size_t exhausted;

// `is_written` is true when the step makes the parcel.
static void exhaust(lua_State *L, step *step, int number, clua_parcel *parcel, bool is_written) {
    int top = lua_gettop(L);
    for (int failures = 2; failures <= 1000000; failures += 999998)
        for (size_t n = 0;; n++) {
            before = n;
            left = failures;
            has_failed = false;
            bool is_done = step(L, parcel);
            left = 0;
            lua_settop(L, top);
            if (is_written) clua_parcel_release(parcel);
            check(is_done || has_failed, "a failure without a reason", number, n);
            check(luaL_dostring(L, "local t = {} for i = 1, 10 do t[i] = i .. '' end assert(#t == 10) collectgarbage()") == LUA_OK,
                  "the state is broken", number, n);
            lua_settop(L, top);
            exhausted++;
            if (!has_failed) break;
        }
}

static lua_State *new_state(void) {
    lua_State *L = clua_state_new(NULL, &host, CLUA_NO_ENVIRONMENT);
    check(L != NULL, "no state", 0, 0);
    return L;
}

// Leaves only the table of seeds on the stack.
static lua_State *seeded_state(const char *path) {
    lua_State *L = new_state();
    check(luaL_loadfile(L, path) == LUA_OK, lua_tostring(L, -1), 0, 0);
    clua_push_handle(L, &references, 1);
    check(lua_pcall(L, 1, 1, 0) == LUA_OK, lua_tostring(L, -1), 0, 0);
    return L;
}

static void exhaust_states(void) {
    for (int failures = 1; failures <= 1000000; failures += 999999)
        for (size_t n = 0;; n++) {
            before = n;
            left = failures;
            has_failed = false;
            lua_State *L = clua_state_new(NULL, &host, CLUA_NO_ENVIRONMENT);
            left = 0;
            check(L != NULL || has_failed, "no state", -1, n);
            if (L != NULL) clua_state_close(L);
            exhausted++;
            if (!has_failed) break;
        }
}

int main(int count, char **arguments) {
    check(count == 2, "usage: memory seeds.lua", 0, 0);
    clua_set_object_functions((clua_object_functions){.retain = retain, .release = release});
    exhaust_states();
    lua_State *L = seeded_state(arguments[1]);
    int seed_count = (int)lua_rawlen(L, 1);
    clua_state_close(L);
    for (int i = 1; i <= seed_count; i++) {
        clua_parcel parcel = {0};
        lua_State *sender = seeded_state(arguments[1]), *receiver = new_state();
        lua_rawgeti(sender, 1, i);
        lua_remove(sender, 1);
        check(lua_pcall(sender, 0, LUA_MULTRET, 0) == LUA_OK, "the seed", i, 0);
        exhaust(sender, encode, i, &parcel, true);
        check(encode(sender, &parcel), "encoding", i, 0);
        exhaust(receiver, decode, i, &parcel, false);
        exhaust(receiver, keep, i, &parcel, false);
        exhaust(receiver, travel, i, &parcel, false);
        clua_parcel_release(&parcel);
        clua_state_close(receiver);
        clua_state_close(sender);
    }
    static const char body[] = "global = { 1 } return function(op, a) return { a, global, op, tostring(op) } end, { 'a' }";
    lua_State *sender = new_state(), *receiver = new_state();
    clua_parcel parcel = {0}, paths = {0};
    check(luaL_dostring(sender, body) == LUA_OK, "the body", 0, 0);
    check(encode(sender, &parcel), "encoding", 0, 0);
    exhaust(receiver, run, 1000, &parcel, false);
    exhaust(receiver, script, 1001, &parcel, false);
    lua_settop(receiver, 0);
    exhaust(receiver, host_calls, 1002, &paths, true);
    lua_gc(receiver, LUA_GCSTOP);
    exhaust(receiver, handles_go, 1003, &paths, false);
    check(clua_state_of(receiver)->handles.page_count <= 4, "there is room for many", 1003, 0);
    clua_parcel_release(&parcel);
    clua_state_close(receiver);
    clua_state_close(sender);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) references += many[i];
    check(references == 0, "references are lost", 0, 0);
    printf("%zu allocations failed\n", exhausted);
    return 0;
}
