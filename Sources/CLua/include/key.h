// Keys: digests of the values in a parcel, which are the same in every process and in every run.
//
// Two parcels with equal digests have the same meaning for their receiver. The order of tables, addresses, the seed of Lua's string hashes
// and debug information do not matter. docs/store.md defines the contents of a key.
#ifndef CLUA_KEY_H
#define CLUA_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parcel.h"
#include "protect.h"

/// An XXH3 digest of 128 bits.
typedef struct clua_digest {
    uint64_t low, high;
} clua_digest;

/// The digest of one line of a function's source. Lines without instructions are absent.
typedef struct clua_line {
    uint32_t number;
    uint64_t digest;  // independent of the number
} clua_line;

/// A part of the parcel's contents, such as a function or an upvalue of it.
typedef struct clua_component {
    char *label;  // "function 'compile'", "upvalue 'flags' of function 'compile'", "argument 1"; each label occurs once
    clua_digest digest;
    clua_line *lines;  // of a function, in the order of their numbers; NULL for others, and for functions without debug information
    size_t line_count;
} clua_component;

/// A host object that the values refer to.
typedef struct clua_met {
    uint32_t reference;  // its number in the parcel
    char *path;          // "upvalue 'fetch' of function 'main'"
} clua_met;

/// The parts of a parcel, in an order that is the same in every run. All of it is owned.
typedef struct clua_key {
    clua_component *components;
    size_t component_count;
    clua_met *met;  // each object once
    size_t met_count;
    char **modules;  // the names of modules that travel by name or that functions require by a constant name, each once
    size_t module_count;
} clua_key;

typedef enum clua_key_status {
    CLUA_KEY_MADE,
    CLUA_KEY_MALFORMED,
    CLUA_KEY_UNSTABLE,  // a frozen value contains an object of the host or a function
    CLUA_KEY_NO_MEMORY
} clua_key_status;

/// Computes the components of a parcel in memory proportional to it, with a bounded C stack. Long strings are read where they are.
/// Objects of the host count by their kind and by their identity within the parcel. The caller adds their contents.
///
/// `role` names the values: the first one of a body is its function.
///
/// `contents` has a number for each reference of the parcel that stands for what the object contains, or is NULL. The numbers decide only
/// about the order in which objects that are keys of one table count. Any thread; calls no Lua. The key is empty unless the status is
/// CLUA_KEY_MADE.
clua_key_status clua_key_make(const clua_parcel *parcel, clua_parcel_role role, const uint64_t *contents, clua_key *key);

/// Frees what the key owns. An empty key is fine.
void clua_key_free(clua_key *key);

/// Finds the file in which `require` finds the module: in Lua or in C. `*file` comes from malloc; it is NULL if there is none. Returns LUA_OK, or
/// an error status with `failure` filled in. Does not raise.
int clua_module_file(lua_State *L, const char *name, char **file, clua_failure *failure);

/// Copies `package.path`. `*path` comes from malloc; it is NULL if there is none. Returns LUA_OK, or an error status with `failure` filled in.
/// Does not raise.
int clua_module_path(lua_State *L, char **path, clua_failure *failure);

/// Writes a parcel of plain data in a form that later processes read, with a checksum. `*bytes` comes from malloc. Returns NULL if the values are
/// written; words for a value that cannot be stored, such as "a function"; "" if memory runs out. Any thread.
const char *clua_stored_write(const clua_parcel *parcel, uint8_t **bytes, size_t *count);

/// Reads what clua_stored_write has written. Returns false, with an empty parcel, for any other bytes, or if memory runs out. Any thread.
bool clua_stored_read(const uint8_t *bytes, size_t count, clua_parcel *parcel);

#endif
