// Reading a function that lua_dump wrote, in the binary format of Lua 5.4. Nothing here calls Lua.
#ifndef CLUA_CHUNK_H
#define CLUA_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The function reads field `name` of its upvalue number `upvalue` (from 1), itself or in a function nested in it. For an
/// upvalue that holds an environment this is a global variable. The name points into the dump; no zero byte ends it.
typedef struct clua_global_read {
    int upvalue;
    const char *name;
    size_t name_count;
} clua_global_read;

typedef struct clua_chunk {
    bool has_parameters;      // or takes any number of arguments
    uint64_t whole[4];        // a bit for each upvalue, from 0: it is used otherwise than for its fields by name, or for its `_G`
    bool is_reusable;         // it defines no functions, and assigns no upvalue: when it has returned, its closure is as it was
    int upvalue_count;
    size_t upvalues;          // offset, in the dump, of the descriptions of the function's upvalues, 3 bytes each
    clua_global_read *reads;  // owned (malloc); sorted by upvalue, each pair once
    size_t read_count;
} clua_chunk;

typedef enum clua_chunk_status { CLUA_CHUNK_OK, CLUA_CHUNK_UNREADABLE, CLUA_CHUNK_NO_MEMORY } clua_chunk_status;

/// Functions nested deeper than this are unreadable; the compiler of Lua stops earlier.
#define CLUA_CHUNK_MAX_DEPTH 200

/// Reads any bytes safely, truncated and altered ones too. `chunk` owns nothing unless the status is CLUA_CHUNK_OK.
/// The C stack grows by about 0.5 KB for each level of nested functions.
clua_chunk_status clua_chunk_parse(const uint8_t *dump, size_t dump_count, clua_chunk *chunk);

/// The most upvalues that a factory can make.
#define CLUA_FACTORY_MAX_UPVALUES 200

/// A binary chunk that, called without arguments, returns a new closure of the function in `dump`, each upvalue its own,
/// unshared and nil. `chunk` is what clua_chunk_parse said about this dump. Made by malloc; NULL when there is no memory.
uint8_t *clua_chunk_factory(const uint8_t *dump, size_t dump_count, const clua_chunk *chunk, size_t *factory_count);

#endif
