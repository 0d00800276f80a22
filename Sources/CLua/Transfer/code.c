#include "Transfer/code.h"

#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"

// The number of compiled codes that a state remembers before it drops them all.
#define MAX_COMPILED 4096
#define MIN_RECORDS 64

// The bytes of code that a state remembers, besides twice the code of living functions.
#define MAX_CACHED_BYTES ((size_t)8 << 20)

// The number of references that a state acquires at once. Receivers release their references on other processors, so the count is in
// another cache each time.
#define PREPAID_AT_ONCE 64

// A state's knowledge of a prototype. The record is valid only while `samples`, a weak table from prototype (light userdata) to one closure,
// has an entry: the closure then keeps the prototype alive. Otherwise the address may belong to another prototype by now, and the code is
// only a candidate for comparison with a new dump.
typedef struct record {
    const void *prototype;  // NULL for a free record
    clua_code *code;        // owned
} record;

// The caches of one state.
typedef struct clua_code_caches {
    record *records;    // open addressing; the capacity is a power of two, at least twice the count
    size_t record_count, record_capacity;
    size_t record_bytes, record_limit;  // of the codes; beyond the limit, those of dead functions are dropped
    clua_code *last;    // owned: the last result of clua_code_of, if prototypes are not found
    clua_code **compiled;  // owned: the keys of `factories`
    size_t compiled_count, compiled_capacity, compiled_bytes;
    size_t compile_count;
} caches;

// MARK: codes

void clua_code_retain(clua_code *code) { atomic_fetch_add_explicit(&code->references, 1, memory_order_relaxed); }

void clua_code_give(clua_code *code) {
    if (code->prepaid == 0) {
        atomic_fetch_add_explicit(&code->references, PREPAID_AT_ONCE, memory_order_relaxed);
        code->prepaid = PREPAID_AT_ONCE;
    }
    code->prepaid--;
}

static void release(clua_code *code, int count) {
    if (atomic_fetch_sub_explicit(&code->references, count, memory_order_acq_rel) != count) return;
    free(code->dump);
    free(code->factory);
    free(code->global_reads);
    free(code->label);
    free(atomic_load_explicit(&code->key, memory_order_relaxed));
    free(code);
}

void clua_code_release(clua_code *code) {
    if (code != NULL) release(code, 1);
}

// Releases the reference of the state that made the code, and the references that no state has received.
static void let_go(clua_code *code) {
    if (code == NULL) return;
    int count = 1 + code->prepaid;
    code->prepaid = 0;
    release(code, count);
}

typedef struct buffer {
    uint8_t *bytes;
    size_t count, capacity;
} buffer;

static int append(lua_State *L, const void *piece, size_t count, void *context) {
    (void)L;
    buffer *to = context;
    if (to->capacity - to->count < count) {
        size_t capacity = 2 * to->capacity + count + 256;
        uint8_t *bytes = realloc(to->bytes, capacity);
        if (bytes == NULL) return 1;
        to->bytes = bytes;
        to->capacity = capacity;
    }
    memcpy(to->bytes + to->count, piece, count);
    to->count += count;
    return 0;
}

// Returns NULL if memory runs out. Never raises, because this lua_getinfo call allocates nothing. Needs 1 free stack slot.
static char *copy_label(lua_State *L, int function) {
    lua_Debug about;
    lua_pushvalue(L, function);
    lua_getinfo(L, ">S", &about);
    size_t size = strlen(about.short_src) + 32;
    char *label = malloc(size);
    if (label != NULL) snprintf(label, size, "<%s:%d>", about.short_src, about.linedefined);
    return label;
}

// Fills in the fields that follow from code->dump.
static clua_chunk_status analyse(clua_code *code) {
    clua_chunk chunk;
    clua_chunk_status status = clua_chunk_parse(code->dump, code->dump_count, &chunk);
    if (status != CLUA_CHUNK_OK) return status;
    code->has_parameters = chunk.has_parameters;
    memcpy(code->whole, chunk.whole, sizeof code->whole);
    code->is_reusable = chunk.is_reusable;
    code->may_change_libraries = chunk.may_change_libraries;
    code->assigns_fields = chunk.assigns_fields;
    code->upvalue_count = chunk.upvalue_count;
    code->global_reads = chunk.reads;
    code->global_read_count = chunk.read_count;
    if (chunk.upvalue_count > CLUA_FACTORY_MAX_UPVALUES) return CLUA_CHUNK_OK;
    code->factory = clua_chunk_factory(code->dump, code->dump_count, &chunk, &code->factory_count);
    return code->factory == NULL ? CLUA_CHUNK_NO_MEMORY : CLUA_CHUNK_OK;
}

// Consumes the bytes and the label, which may be NULL. Returns a code with one reference, or NULL.
static clua_code *make_code(buffer dump, char *label, clua_chunk_status *status) {
    clua_code *code = calloc(1, sizeof(clua_code));
    *status = CLUA_CHUNK_NO_MEMORY;
    if (code == NULL) {
        free(dump.bytes);
        free(label);
        return NULL;
    }
    atomic_init(&code->references, 1);
    uint8_t *fitting = realloc(dump.bytes, dump.count);
    code->dump = fitting == NULL ? dump.bytes : fitting;
    code->dump_count = dump.count;
    code->label = label;
    if (code->label != NULL) *status = analyse(code);
    if (*status == CLUA_CHUNK_OK) return code;
    clua_code_release(code);
    return NULL;
}

clua_code *clua_code_from(const char *dump, size_t dump_count, const char *label, size_t label_count) {
    if (dump_count == 0) return NULL;
    uint8_t *bytes = malloc(dump_count);
    char *copy = malloc(label_count + 1);
    if (bytes == NULL || copy == NULL) {
        free(bytes);
        free(copy);
        return NULL;
    }
    memcpy(bytes, dump, dump_count);
    memcpy(copy, label, label_count);
    copy[label_count] = '\0';
    clua_chunk_status status;
    return make_code((buffer){bytes, dump_count, dump_count}, copy, &status);
}

// Returns the function's code with a reference for the caller: `known` (may be NULL) if it is the same code. May raise, but only while it
// owns nothing, because neither lua_dump nor lua_getinfo raises. Needs 1 free stack slot.
static clua_code *dump_code(lua_State *L, int function, clua_code *known) {
    buffer dump = {NULL, 0, 0};
    lua_pushvalue(L, function);
    int status = lua_dump(L, append, &dump, 0);
    lua_pop(L, 1);
    if (status != 0) {
        free(dump.bytes);
        clua_no_memory(L);
    }
    if (known != NULL && known->dump_count == dump.count && memcmp(known->dump, dump.bytes, dump.count) == 0) {
        free(dump.bytes);
        clua_code_retain(known);
        return known;
    }
    clua_chunk_status chunk_status;
    clua_code *code = make_code(dump, copy_label(L, function), &chunk_status);
    if (chunk_status == CLUA_CHUNK_NO_MEMORY) clua_no_memory(L);
    if (chunk_status == CLUA_CHUNK_UNREADABLE) luaL_error(L, "the code of a function cannot be read");
    return code;
}

// MARK: caches of a state

static caches *caches_of(lua_State *L) { return clua_state_of(L)->codes; }

void clua_code_close(clua_state *state) {
    state->last_prototype = NULL;
    caches *own = state->codes;
    if (own == NULL) return;
    for (size_t i = 0; i < own->record_capacity; i++) let_go(own->records[i].code);
    for (size_t i = 0; i < own->compiled_count; i++) clua_code_release(own->compiled[i]);
    let_go(own->last);
    free(own->records);
    free(own->compiled);
    free(own);
    state->codes = NULL;
}

// The start of an LClosure in Lua 5.4's lobject.h.
typedef struct lua_closure {
    void *next;
    unsigned char type, marked, upvalue_count;
    void *gray_list;
    const void *prototype;
} lua_closure;

// `function` must be a Lua function.
static const void *prototype_of(lua_State *L, int function) {
    const lua_closure *closure = lua_topointer(L, function);
    return closure->prototype;
}

// Whether prototype_of works with this build of Lua. Set when a state of the process first sends a function.
static _Atomic(enum { UNKNOWN, FOUND, NOT_FOUND }) prototypes;

// Whether closures of one prototype agree, and others differ. May raise. Needs 4 free stack slots.
static bool finds_prototypes(lua_State *L) {
    const char source[] = "local function make() return function() return make end end return make, make(), make()";
    if (luaL_loadbufferx(L, source, sizeof(source) - 1, "=prototypes", "t") != LUA_OK) lua_error(L);
    lua_call(L, 0, 3);
    bool distinct = lua_topointer(L, -1) != lua_topointer(L, -2);
    const void *other = prototype_of(L, -3), *first = prototype_of(L, -2), *second = prototype_of(L, -1);
    lua_pop(L, 3);
    return distinct && first != NULL && other != NULL && first == second && first != other;
}

void clua_code_open(lua_State *L) {
    caches *own = clua_state_of(L)->codes = calloc(1, sizeof(caches));
    if (own == NULL) clua_no_memory(L);
    own->record_limit = MAX_CACHED_BYTES;
    clua_push_weak(L, "v");
    clua_keep(L, CLUA_KEPT_SAMPLES);
    lua_newtable(L);
    clua_keep(L, CLUA_KEPT_FACTORIES);
}

size_t clua_code_compile_count(lua_State *L) { return caches_of(L)->compile_count; }

// MARK: sending

// Returns the record of the prototype, or the free record where it belongs. There is always a free one.
static record *find_record(record *records, size_t capacity, const void *prototype) {
    size_t hash = (size_t)(((uint64_t)(uintptr_t)prototype * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
    for (size_t i = hash;; i++) {
        record *at = &records[i & (capacity - 1)];
        if (at->prototype == prototype || at->prototype == NULL) return at;
    }
}

// Stack: ..., samples. Needs 1 free stack slot.
static bool is_alive(lua_State *L, const record *known) {
    bool alive = known->prototype != NULL && lua_rawgetp(L, -1, known->prototype) != LUA_TNIL;
    if (known->prototype != NULL) lua_pop(L, 1);
    return alive;
}

// Drops the records of prototypes whose sample closure is dead, and makes room for twice the rest plus one. Stack: ..., samples. Needs 1
// free stack slot.
static void rebuild_records(lua_State *L, caches *own) {
    clua_state_of(L)->last_prototype = NULL;
    size_t count = 0, capacity = MIN_RECORDS;
    for (size_t i = 0; i < own->record_capacity; i++) count += is_alive(L, &own->records[i]);
    while (capacity < 4 * (count + 1)) capacity *= 2;
    record *records = calloc(capacity, sizeof(record));
    if (records == NULL) clua_no_memory(L);
    own->record_bytes = 0;
    for (size_t i = 0; i < own->record_capacity; i++) {
        record *known = &own->records[i];
        if (is_alive(L, known)) {
            *find_record(records, capacity, known->prototype) = *known;
            own->record_bytes += clua_code_size(known->code);
        } else {
            let_go(known->code);
        }
    }
    own->record_limit = 2 * own->record_bytes + MAX_CACHED_BYTES;
    free(own->records);
    own->records = records;
    own->record_capacity = capacity;
    own->record_count = count;
}

// For a prototype without an entry in `samples`. May raise.
static clua_code *learn(lua_State *L, caches *own, int function) {
    const void *prototype = prototype_of(L, function);
    function = lua_absindex(L, function);
    clua_push_kept(L, CLUA_KEPT_SAMPLES);
    record *at = own->record_capacity == 0 ? NULL : find_record(own->records, own->record_capacity, prototype);
    bool known = at != NULL && at->prototype == prototype;
    if (own->record_bytes > own->record_limit || (!known && 2 * (own->record_count + 1) > own->record_capacity)) {
        rebuild_records(L, own);
        known = false;  // without a sample, its record is gone
        at = find_record(own->records, own->record_capacity, prototype);
    }
    clua_code *code = dump_code(L, function, at->code);
    clua_state_of(L)->last_prototype = NULL;
    if (at->code != NULL) own->record_bytes -= clua_code_size(at->code);
    let_go(at->code);
    own->record_bytes += clua_code_size(code);
    at->code = code;
    at->prototype = prototype;
    if (!known) own->record_count++;

    lua_pushvalue(L, function);
    lua_rawsetp(L, -2, prototype);  // may raise; a record without an entry does no harm
    lua_pop(L, 1);
    return code;
}

static clua_code *dump_again(lua_State *L, caches *own, int function) {
    clua_code *code = dump_code(L, function, own->last);
    let_go(own->last);
    own->last = code;
    return code;
}

clua_code *clua_code_known(lua_State *L, int function) {
    clua_state *state = clua_state_of(L);
    const caches *own = state->codes;
    if (prototypes != FOUND) return NULL;
    const void *prototype = prototype_of(L, function);
    if (prototype == state->last_prototype) return state->last_code;
    clua_push_kept(L, CLUA_KEPT_SAMPLES);
    bool is_known = lua_rawgetp(L, -1, prototype) != LUA_TNIL;
    lua_pop(L, 2);
    if (!is_known) return NULL;
    state->last_prototype = prototype;
    return state->last_code = find_record(own->records, own->record_capacity, prototype)->code;
}

clua_code *clua_code_of(lua_State *L, int function) {
    if (lua_type(L, function) != LUA_TFUNCTION || lua_iscfunction(L, function)) luaL_error(L, "a Lua function expected");
    caches *own = caches_of(L);
    if (prototypes == UNKNOWN) prototypes = finds_prototypes(L) ? FOUND : NOT_FOUND;
    if (prototypes == NOT_FOUND) return dump_again(L, own, function);
    clua_code *known = clua_code_known(L, function);
    return known != NULL ? known : learn(L, own, function);
}

// MARK: receiving

// Pushes the function in the chunk.
static void load(lua_State *L, caches *own, const uint8_t *chunk, size_t count) {
    if (luaL_loadbufferx(L, (const char *)chunk, count, "=code", "b") != LUA_OK) lua_error(L);
    own->compile_count++;
}

// Stack: ..., factories, factory. Never raises, because assigning nil to an existing field allocates nothing. Needs 1 free stack slot.
static void forget_compiled(lua_State *L, caches *own) {
    for (size_t i = 0; i < own->compiled_count; i++) {
        lua_pushnil(L);
        lua_rawsetp(L, -3, own->compiled[i]);
        clua_code_release(own->compiled[i]);
    }
    own->compiled_count = own->compiled_bytes = 0;
}

static void reserve_compiled(lua_State *L, caches *own) {
    if (own->compiled_count < own->compiled_capacity) return;
    size_t capacity = own->compiled_capacity == 0 ? 16 : 2 * own->compiled_capacity;
    clua_code **compiled = realloc(own->compiled, capacity * sizeof(clua_code *));
    if (compiled == NULL) clua_no_memory(L);
    own->compiled = compiled;
    own->compiled_capacity = capacity;
}

// Stack: ..., factories. Pushes the factory. Loading may run finalizers, which may compile factories, too.
static void compile_factory(lua_State *L, clua_code *code) {
    caches *own = caches_of(L);
    load(L, own, code->factory, code->factory_count);
    if (own->compiled_count >= MAX_COMPILED || own->compiled_bytes > MAX_CACHED_BYTES) forget_compiled(L, own);
    reserve_compiled(L, own);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, code);
    clua_code_retain(code);
    own->compiled[own->compiled_count++] = code;
    own->compiled_bytes += clua_code_size(code);
}

// Loading creates new upvalues. All are nil except the first, which Lua sets to the globals, so it is reset.
static void instantiate_without_factory(lua_State *L, const clua_code *code) {
    load(L, caches_of(L), code->dump, code->dump_count);
    lua_pushnil(L);
    if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
}

void clua_code_instantiate(lua_State *L, clua_code *code) {
    if (code->may_change_libraries) clua_note_library_code(clua_state_of(L));
    if (code->factory == NULL) {
        instantiate_without_factory(L, code);
        return;
    }
    clua_push_kept(L, CLUA_KEPT_FACTORIES);
    if (lua_rawgetp(L, -1, code) == LUA_TNIL) {
        lua_pop(L, 1);
        compile_factory(L, code);
    }
    clua_state *state = clua_state_of(L);
    state->running_factory = lua_topointer(L, -1);
    lua_call(L, 0, 1);
    state->running_factory = NULL;
    lua_replace(L, -2);
}
