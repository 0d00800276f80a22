// A libFuzzer target for the decoder and for keys. Whatever the bytes of a parcel are, decoding must raise an error or give values that can be sent
// again. `scripts/fuzz parcel` builds and runs it.
//
//   parcel --seeds=seeds.lua CORPUS          fuzzes
//   parcel --seeds=seeds.lua --write=CORPUS  writes the initial parcels into a folder
//
// An input is four bytes followed by the bytes of a parcel. The four bytes choose the seed whose codes and objects are used, the
// environment, and the memory that the state may take beyond what it holds (two bytes, 0 for enough).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CLua.h"
#include "Objects/object_raising.h"

enum { HEADER = 4, MOST_SEEDS = 64, KIND = 1, ENOUGH = 32 << 20 };

static clua_parcel seeds[MOST_SEEDS];
static int seed_count;
static int references;  // references to the host's only object

static void retain(void *object) { ++*(int *)object; }
static void release(void *object) { --*(int *)object; }
static void call(lua_State *L, int member, clua_reply *reply) { (void)L, (void)member, (void)reply; }
static void sent(lua_State *L, const clua_parcel *parcel) { (void)L, (void)parcel; }

static const clua_host host = {.call = call, .sent = sent};

static void check(bool is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "parcel fuzzer: %s\n", what);
    abort();
}

static lua_State *new_state(void) {
    lua_State *L = clua_state_new(NULL, &host, CLUA_NO_ENVIRONMENT);
    check(L != NULL, "no state");
    return L;
}

static const char *option(int count, char **arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], name, length) == 0) return arguments[i] + length;
    return NULL;
}

static void make_seeds(const char *path) {
    lua_State *L = new_state();
    if (luaL_loadfile(L, path) != LUA_OK) check(false, lua_tostring(L, -1));
    clua_push_handle(L, &references, KIND);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) check(false, lua_tostring(L, -1));
    seed_count = (int)lua_rawlen(L, -1);
    check(seed_count > 0 && seed_count <= MOST_SEEDS, "too many seeds, or none");
    for (int i = 0; i < seed_count; i++) {
        lua_settop(L, 1);
        lua_rawgeti(L, 1, i + 1);
        if (lua_pcall(L, 0, LUA_MULTRET, 0) != LUA_OK) check(false, lua_tostring(L, -1));
        if (clua_encode(L, lua_gettop(L) - 1, CLUA_STORED, &seeds[i]) != LUA_OK) check(false, lua_tostring(L, -1));
    }
    clua_state_close(L);
}

static void write_seeds(const char *directory) {
    for (int i = 0; i < seed_count; i++)
        for (int environment = 0; environment < 2; environment++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/seed-%d-%d", directory, i, environment);
            FILE *file = fopen(path, "wb");
            check(file != NULL, "cannot write the seeds");
            const uint8_t header[HEADER] = {(uint8_t)i, (uint8_t)environment, 0, 0};
            fwrite(header, 1, sizeof header, file);
            fwrite(clua_parcel_bytes(&seeds[i]), 1, seeds[i].byte_count, file);
            fclose(file);
        }
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerInitialize(int *count, char ***arguments) {
    clua_set_object_functions((clua_object_functions){.retain = retain, .release = release});
    const char *path = option(*count, *arguments, "--seeds=");
    check(path != NULL, "usage: parcel --seeds=FILE [--write=DIRECTORY] [CORPUS]");
    make_seeds(path);
    const char *directory = option(*count, *arguments, "--write=");
    if (directory == NULL) return 0;
    write_seeds(directory);
    exit(0);
}

// A parcel can name and call every function of the libraries. This removes functions that would end the fuzzer, touch the outside, run
// for ever, or change their caller's stack.
static const char disarm[] =
    "for _, name in ipairs { 'os', 'io', 'debug', 'load', 'loadfile', 'dofile', 'print', 'collectgarbage' } do _G[name] = nil;"
    "  package.loaded[name] = nil end "
    "table.move = nil string.rep = nil package.loadlib = nil package.path = '' package.cpath = ''";

// Leaves the decoded values, or nothing.
static bool decode(lua_State *L, const clua_parcel *parcel, clua_environment environment) {
    int top = lua_gettop(L);
    int status = clua_decode(L, parcel, environment);
    int expected = status == LUA_OK ? parcel->value_count : 1;
    check(lua_gettop(L) == top + expected, "the stack has something else on it");
    if (status != LUA_OK) lua_settop(L, top);
    return status == LUA_OK;
}

// The bytes have a key or are refused, and what is stored of them is read again.
static void make_key(const clua_parcel *parcel) {
    clua_key key;
    clua_key_status status = clua_key_make(parcel, CLUA_BODY, NULL, &key);
    clua_key_free(&key);
    uint8_t *bytes;
    size_t count;
    clua_parcel again;
    const char *refusal = clua_stored_write(parcel, &bytes, &count);
    check(refusal == NULL || bytes == NULL, "something is stored that cannot be");
    if (refusal != NULL) return;
    check(status == CLUA_KEY_MADE && clua_stored_read(bytes, count, &again), "what was stored is not read");
    clua_parcel_release(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEADER) return 0;
    lua_State *L = new_state();
    clua_state *state = clua_state_of(L);
    check(luaL_dostring(L, disarm) == LUA_OK, "cannot disarm the state");
    int before = references;
    size_t room = (size_t)data[2] << 8 | data[3];
    state->limit_bytes = state->used_bytes + (room == 0 ? ENOUGH : room);

    clua_parcel parcel = seeds[data[0] % seed_count];
    // Other memory may follow libFuzzer's buffer directly. AddressSanitizer watches the end of this copy.
    parcel.byte_count = size - HEADER;
    parcel.bytes = malloc(parcel.byte_count);
    parcel.has_block = true;
    memcpy(parcel.bytes, data + HEADER, parcel.byte_count);
    clua_environment environment = data[1] & 1 ? CLUA_CURRENT_ENVIRONMENT : CLUA_FRESH_ENVIRONMENT;
    bool is_decoded = decode(L, &parcel, environment);
    make_key(&parcel);
    free(parcel.bytes);
    if (is_decoded) {
        clua_parcel again;
        if (clua_encode(L, parcel.value_count, CLUA_STORED, &again) == LUA_OK) decode(L, &again, environment);
        clua_parcel_release(&again);
    }
    state->limit_bytes = state->possible_bytes;
    lua_settop(L, 0);
    check(luaL_dostring(L, "local t = {} for i = 1, 10 do t[i] = i .. '' end assert(#t == 10)") == LUA_OK, "the state is broken");
    clua_state_close(L);
    check(references == before, "references are lost");
    return 0;
}
