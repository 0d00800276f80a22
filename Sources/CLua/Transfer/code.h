// The code of one function prototype, shared between states.
//
// The sending state dumps a prototype once, and each receiving state compiles it once, however many closures are sent. Functions that raise
// must be called from C functions in protected mode. Any coroutine of the state will do.
#ifndef CLUA_CODE_H
#define CLUA_CODE_H

#include <lua5.4/lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "Transfer/chunk.h"
#include "state.h"

enum { CLUA_LINE_BYTES = 64 };  // size of a cache line

/// Only the counts, `was_sent` and `key` change after creation, so all threads may read it. The padding keeps the counts on cache lines of their own.
typedef struct clua_code {
    atomic_int references;
    uint8_t apart_from_references[CLUA_LINE_BYTES];
    int prepaid;  // references that no state has received; belongs to the state that made the code
    uint8_t apart_from_prepaid[CLUA_LINE_BYTES];
    atomic_size_t counted;  // the parcels that a ledger counts; it counts the code while there are any
    uint8_t *dump;     // as from string.dump, with debug information
    size_t dump_count;
    uint8_t *factory;  // see clua_chunk_factory; NULL if there are too many upvalues
    size_t factory_count;
    bool has_parameters;  // or varargs
    bool is_reusable;     // see clua_chunk
    bool may_change_libraries, assigns_fields;  // see clua_chunk
    uint64_t whole[4];    // see clua_chunk
    int upvalue_count;
    clua_global_read *global_reads;
    size_t global_read_count;
    char *label;       // "<pipeline.lua:12>": the source as errors name it, and the line of `function`
    atomic_bool was_sent;  // see clua_wire_mark_sent
    _Atomic(void *) key;  // owned (malloc): the code_key that Keys computes on first use; NULL until then
} clua_code;

/// Whether the function uses its upvalue (from 1) otherwise than for fields by name.
static inline bool clua_code_uses_whole(const clua_code *code, int upvalue) {
    return (code->whole[(upvalue - 1) / 64] >> (upvalue - 1) % 64 & 1) != 0;
}

/// The bytes that the code takes.
static inline size_t clua_code_size(const clua_code *code) { return sizeof *code + code->dump_count + code->factory_count; }

/// Prepares a fresh state. Call it once. Raises if memory runs out. Needs 6 free stack slots.
void clua_code_open(lua_State *L);

/// Frees the caches of a closed state. Never raises.
void clua_code_close(clua_state *state);

/// The code of the Lua function at `function`. The code is borrowed, and the next call in this state may free it; retain it to keep it. Raises
/// for other values, or if memory runs out. Needs 5 free stack slots.
clua_code *clua_code_of(lua_State *L, int function);

/// A code with one reference, from the dump and the label of another code. Returns NULL if memory runs out or the dump cannot be read. Never
/// raises.
clua_code *clua_code_from(const char *dump, size_t dump_count, const char *label, size_t label_count);

/// As clua_code_of for a Lua function, but returns NULL if the code is not known yet. Never raises. Needs 2 free stack slots.
clua_code *clua_code_known(lua_State *L, int function);

/// Acquires a reference for a receiver. Only the state that made the code may call it. Never raises.
void clua_code_give(clua_code *code);

/// Any thread. Never raise. clua_code_release accepts NULL.
void clua_code_retain(clua_code *code);
void clua_code_release(clua_code *code);

/// Pushes a new closure with fresh upvalues, all nil. The caller holds a reference to `code` meanwhile. May run a garbage collection.
/// Raises if memory or stack runs out. Needs 5 free stack slots, leaves 1.
void clua_code_instantiate(lua_State *L, clua_code *code);

/// How often clua_code_instantiate has compiled in this state: once per code, but each time for a code without a factory, and again after
/// the state has dropped its compiled codes (4096). For tests. Never raises.
size_t clua_code_compile_count(lua_State *L);

#endif
