// The code of one function prototype, on its way from one state to others.
//
// A prototype is dumped once in the state that sends it and compiled once in each state that receives it, however many
// closures are sent. What raises is called from C functions in protected mode, on any coroutine of the state.
#ifndef CLUA_CODE_H
#define CLUA_CODE_H

#include <lua5.4/lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "Transfer/chunk.h"
#include "state.h"

enum { CLUA_LINE_BYTES = 64 };  // of memory, which goes from one processor to another as a whole

/// Nothing but the counts changes after the code is made, so all threads may read it.
typedef struct clua_code {
    atomic_int references;
    uint8_t apart_from_references[CLUA_LINE_BYTES];
    int prepaid;  // of the references, those that nobody has yet; belongs to the state that made the code
    uint8_t apart_from_prepaid[CLUA_LINE_BYTES];
    uint8_t *dump;     // as string.dump gives it, with debug information
    size_t dump_count;
    uint8_t *factory;  // see clua_chunk_factory; NULL when there are too many upvalues
    size_t factory_count;
    bool has_parameters;  // or takes any number of arguments
    bool is_reusable;     // see clua_chunk
    uint64_t whole[4];    // see clua_chunk
    int upvalue_count;
    clua_global_read *global_reads;
    size_t global_read_count;
    char *label;       // "<pipeline.lua:12>": the source as errors name it, and the line of `function`
} clua_code;

/// Whether the function uses its upvalue, from 1, otherwise than for its fields by name.
static inline bool clua_code_uses_whole(const clua_code *code, int upvalue) {
    return (code->whole[(upvalue - 1) / 64] >> (upvalue - 1) % 64 & 1) != 0;
}

/// Prepares a fresh state; call it once. Raises for lack of memory. Needs 6 free stack slots.
void clua_code_open(lua_State *L);

/// Gives back what belonged to a state that has been closed. Never raises.
void clua_code_close(clua_state *state);

/// The code of the Lua function at stack index `function`. It is borrowed, and may go away with the next call in this state:
/// retain it to keep it. Raises for other values and for lack of memory. Needs 5 free stack slots.
clua_code *clua_code_of(lua_State *L, int function);

/// The same, if it is known without making anything; NULL otherwise. `function` is a Lua function. Never raises. Needs 2 free stack slots.
clua_code *clua_code_known(lua_State *L, int function);

/// A reference for who is going to receive a code of this state's. Never raises.
void clua_code_give(clua_code *code);

/// Any thread; never raise. NULL is fine to release.
void clua_code_retain(clua_code *code);
void clua_code_release(clua_code *code);

/// Pushes a new closure with upvalues of its own, all nil. The caller keeps a reference to `code` meanwhile. Raises for lack of
/// memory or stack. May run a garbage collection. Needs 5 free stack slots, leaves 1.
void clua_code_instantiate(lua_State *L, clua_code *code);

/// How often clua_code_instantiate had to compile in this state: the first time for each code; each time without a factory,
/// and again after more codes than the state remembers (4096). For tests. Never raises.
size_t clua_code_compile_count(lua_State *L);

#endif
