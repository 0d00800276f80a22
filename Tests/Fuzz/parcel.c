// A libFuzzer target for the decoder and for keys. For any bytes of a parcel, decoding must raise an error or give values that can be sent
// again. `scripts/fuzz parcel` builds and runs it.
//
//   parcel --seeds=seeds.lua CORPUS          fuzzes
//   parcel --seeds=seeds.lua --write=CORPUS  writes the initial parcels into a folder
//
// An input is four bytes followed by the bytes of a parcel. The four bytes choose the seed whose codes and objects are used, the
// environment, and the memory that the state may take beyond what it holds (two bytes, 0 for enough). If the seed has classes, their bytes follow,
// and then the number of these bytes (two bytes).
#include "Transfer/parcel_format.h"
#include "Transfer/shared_string.h"
#include "fuzzing.h"

enum { HEADER = 4, ENOUGH = 32 << 20 };

static const clua_host host = {.call = call, .sent = sent};

// The bytes of the seed's classes; NULL if it has none.
static const clua_shared_string *classes_of(const clua_parcel *seed) {
    if ((clua_parcel_bytes(seed)[0] & CLUA_HAS_CLASSES) == 0) return NULL;
    return clua_parcel_string(seed, clua_parcel_string_count(seed) - 1);
}

static void write_seeds(const char *directory) {
    for (int i = 0; i < seed_count; i++)
        for (int environment = 0; environment < 2; environment++) {
            FILE *file = open_seed(directory, i, environment);
            const uint8_t header[HEADER] = {(uint8_t)i, (uint8_t)environment, 0, 0};
            fwrite(header, 1, sizeof header, file);
            fwrite(clua_parcel_bytes(&seeds[i]), 1, seeds[i].byte_count, file);
            const clua_shared_string *classes = classes_of(&seeds[i]);
            if (classes != NULL) {
                const uint8_t count[] = {(uint8_t)(classes->count >> 8), (uint8_t)classes->count};
                fwrite(classes->bytes, 1, classes->count, file);
                fwrite(count, 1, sizeof count, file);
            }
            fclose(file);
        }
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *directory = begin(*count, *arguments, &host);
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

// The bytes have a key or are refused. Bytes that were stored can be read again.
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

// Replaces the classes of the parcel by bytes at the end of the input. Returns the number of the bytes. `more` and `strings` have room for the lists.
static size_t replace_classes(clua_parcel *parcel, const uint8_t *data, size_t size, clua_parcel_more *more, clua_shared_string **strings) {
    if (classes_of(parcel) == NULL || size < HEADER + 2) return 0;
    size_t count = (size_t)data[size - 2] << 8 | data[size - 1];
    if (count > size - HEADER - 2) count = size - HEADER - 2;
    *more = *parcel->more;
    check(more->string_count == 1, "a seed with classes has other long strings");
    *strings = clua_shared_string_copy((const char *)data + size - 2 - count, count);
    more->strings = strings;
    parcel->more = more;
    return count + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEADER) return 0;
    lua_State *L = new_state(&host);
    clua_state *state = clua_state_of(L);
    check(luaL_dostring(L, disarm) == LUA_OK, "cannot disarm the state");
    int before = references;
    size_t room = (size_t)data[2] << 8 | data[3];
    state->limit_bytes = state->used_bytes + (room == 0 ? ENOUGH : room);

    clua_parcel parcel = seeds[data[0] % seed_count];
    clua_parcel_more more;
    clua_shared_string *classes = NULL;
    size -= replace_classes(&parcel, data, size, &more, &classes);
    // Other memory may follow libFuzzer's buffer directly. AddressSanitizer watches the end of this copy.
    parcel.byte_count = size - HEADER;
    parcel.bytes = malloc(parcel.byte_count);
    parcel.has_block = true;
    memcpy(parcel.bytes, data + HEADER, parcel.byte_count);
    clua_environment environment = data[1] & 1 ? CLUA_CURRENT_ENVIRONMENT : CLUA_FRESH_ENVIRONMENT;
    bool is_decoded = decode(L, &parcel, environment);
    make_key(&parcel);
    free(parcel.bytes);
    clua_shared_string_release(classes);
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
