#include "Calls/cached_closure_raising.h"

#include <string.h>

#include "Core/registry_raising.h"
#include "Transfer/code.h"
#include "Transfer/decoder_raising.h"
#include "Transfer/parcel_format.h"

// A limit, because the upvalues keep their values alive after the body has returned.
enum { MAX_UPVALUES = 8 };

static int kept_index(clua_state *state, const clua_cached_closure *cached) {
    return CLUA_KEPT_CACHED_CLOSURES + (int)(cached - state->cached_closures);
}

// Stores the closure on top in the cache entry, which must not be running.
static void assign(lua_State *L, clua_cached_closure *cached, clua_code *code) {
    lua_pushvalue(L, -1);
    clua_keep(L, kept_index(clua_state_of(L), cached));
    clua_code_retain(code);
    clua_code_release(cached->code);
    cached->code = code;
}

static clua_cached_closure *slot_for(clua_state *state, const clua_code *code) {
    return &state->cached_closures[(uintptr_t)code / sizeof(clua_code) % CLUA_CACHED_CLOSURE_COUNT];
}

static void push_again(lua_State *L, clua_cached_closure *cached) {
    clua_state *state = clua_state_of(L);
    clua_push_kept(L, kept_index(state, cached));
    state->reuse_count++;
    cached->is_running = true;
    cached->look_count = state->look_count;
    if (cached->code->may_change_libraries) clua_note_library_code(state);
}

// Pushes a closure of `code` whose upvalues are still to be set. Returns its cache entry, or NULL if the closure is not cached.
static clua_cached_closure *push_closure(lua_State *L, clua_code *code) {
    clua_state *state = clua_state_of(L);
    clua_cached_closure *cached = slot_for(state, code);
    if (cached->code == code && !cached->is_running) {
        push_again(L, cached);
        return cached;
    }
    uint64_t look_count = state->look_count;  // read first: a finalizer may run during the instantiation, and call `debug`
    clua_code_instantiate(L, code);
    if (cached->is_running) return NULL;  // this call runs inside the cached closure
    assign(L, cached, code);
    cached->is_running = true;
    cached->look_count = look_count;
    return cached;
}

// Whether the next `count` values are plain and the end follows.
static bool are_plain(parcel_reader reader, int count) {
    size_t length;
    for (int i = 0; i < count; i++) switch (reader_byte(&reader)) {
        case CLUA_TAG_NIL:
        case CLUA_TAG_FALSE:
        case CLUA_TAG_TRUE: break;
        case CLUA_TAG_INTEGER: reader_varint(&reader); break;
        case CLUA_TAG_FLOAT: reader_bytes(&reader, sizeof(lua_Number)); break;
        case CLUA_TAG_STRING: reader_string(&reader, &length); break;
        default: return false;
        }
    return reader_peek(&reader) == CLUA_TAG_END;
}

// Whether the closure has the parcel's upvalues already. A cached body assigns none.
static bool has_upvalues_of(const clua_cached_closure *cached, const clua_parcel *parcel) {
    return !parcel->has_block && cached->byte_count == parcel->byte_count
        && memcmp(cached->bytes, parcel->few, parcel->byte_count) == 0;
}

static void note_upvalues(clua_cached_closure *cached, const clua_parcel *parcel) {
    cached->byte_count = parcel->has_block ? 0 : parcel->byte_count;
    memcpy(cached->bytes, parcel->few, sizeof cached->bytes);
}

bool clua_push_cached_closure(lua_State *L, const clua_parcel *parcel, clua_cached_closure **cached) {
    if (parcel->value_count != 1 || clua_parcel_code_count(parcel) != 1) return false;
    clua_code *code = clua_parcel_code(parcel, 0);
    if (!code->is_reusable || code->upvalue_count > MAX_UPVALUES) return false;
    clua_cached_closure *last = slot_for(clua_state_of(L), code);
    if (last->code == code && !last->is_running && has_upvalues_of(last, parcel)) {
        push_again(L, *cached = last);
        return true;
    }
    const uint8_t *bytes = clua_parcel_bytes(parcel);
    parcel_reader reader = {.L = L, .next = bytes, .end = bytes + parcel->byte_count};
    if (reader_byte(&reader) != 0 || reader_byte(&reader) != CLUA_TAG_FUNCTION || reader_varint(&reader) != 0) return false;
    if (!are_plain(reader, code->upvalue_count)) return false;
    *cached = push_closure(L, code);
    if (*cached != NULL) note_upvalues(*cached, parcel);
    int function = lua_gettop(L);
    for (int i = 1; i <= code->upvalue_count; i++) {
        decode_plain(&reader, reader_byte(&reader));
        lua_setupvalue(L, function, i);
    }
    return true;
}

void clua_leave_cached_closure(lua_State *L, clua_cached_closure *cached, bool has_returned) {
    clua_state *state = clua_state_of(L);
    if (has_returned && cached->look_count == state->look_count) {
        cached->is_running = false;
        return;
    }
    lua_pushboolean(L, 0);
    clua_keep(L, kept_index(state, cached));
    clua_code_release(cached->code);
    *cached = (clua_cached_closure){0};
}

void clua_cached_closures_close(clua_state *state) {
    for (int i = 0; i < CLUA_CACHED_CLOSURE_COUNT; i++) clua_code_release(state->cached_closures[i].code);
}
