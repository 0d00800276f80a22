// Parsing a function that lua_dump wrote, in the binary format of Lua 5.4. Nothing here calls Lua.
#ifndef CLUA_CHUNK_H
#define CLUA_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The function, or one nested in it, reads field `name` of its upvalue `upvalue` (from 1). If the upvalue holds an environment, that is a
/// global variable. If `upvalue` is 0, the function calls a method with this name. The names point into the dump and are not
/// zero-terminated.
typedef struct clua_global_read {
    int upvalue;
    const char *name;
    size_t name_count;
    const char *field;  // all that the function uses of the value: its field, or the argument of `require`; NULL if it may use more
    size_t field_count;
} clua_global_read;

typedef struct clua_chunk {
    bool has_parameters;      // or varargs
    uint64_t whole[4];        // one bit per upvalue, from 0: set if it is used otherwise than for fields by name, or for `_G`
    bool is_reusable;         // defines no functions and assigns no upvalue, so a call leaves its closure unchanged
    bool assigns_fields;      // it, or a function nested in it, assigns fields of one of its upvalues by name
    bool may_change_libraries;  // it, or a function nested in it, may do more with a library than use its functions
    int upvalue_count;
    size_t upvalues;          // offset in the dump of the function's upvalue descriptions, 3 bytes each
    clua_global_read *reads;  // owned (malloc); sorted by upvalue, name and field, without duplicates
    size_t read_count;
} clua_chunk;

typedef enum clua_chunk_status { CLUA_CHUNK_OK, CLUA_CHUNK_UNREADABLE, CLUA_CHUNK_NO_MEMORY } clua_chunk_status;

/// Functions nested deeper are rejected. Lua's compiler stops earlier.
#define CLUA_CHUNK_MAX_DEPTH 200

/// Parses arbitrary bytes safely, also truncated or altered ones. `chunk` owns nothing unless the status is CLUA_CHUNK_OK. The C stack
/// grows by about 0.5 KB per level of nesting.
clua_chunk_status clua_chunk_parse(const uint8_t *dump, size_t dump_count, clua_chunk *chunk);

/// The bytes of a function in two parts, which are the same wherever the function is dumped. Its source and the descriptions of its upvalues are
/// left out: these depend on the function around it.
typedef struct clua_chunk_function {
    const uint8_t *first, *second;
    size_t first_count, second_count;
} clua_chunk_function;

/// Calls `visit` for each function in a dump that clua_chunk_parse has parsed. The outermost one is the last. Returns false if memory runs out.
bool clua_chunk_visit(const uint8_t *dump, size_t dump_count, void (*visit)(void *context, clua_chunk_function function), void *context);

/// The largest number of upvalues that a factory supports.
#define CLUA_FACTORY_MAX_UPVALUES 200

/// Returns a binary chunk that, called without arguments, returns a new closure of the dumped function. Its upvalues are fresh, unshared
/// and nil. `chunk` is the result of clua_chunk_parse for this dump. The block comes from malloc; NULL if memory runs out.
uint8_t *clua_chunk_factory(const uint8_t *dump, size_t dump_count, const clua_chunk *chunk, size_t *factory_count);

#endif
