// What is known while values are encoded. May raise, except where it says so.
#ifndef CLUA_ENCODER_H
#define CLUA_ENCODER_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "Transfer/code.h"
#include "Transfer/parcel_path.h"
#include "Transfer/parcel_writer.h"
#include "Transfer/pointer_map.h"
#include "parcel.h"

// An object whose body is still to be written.
typedef struct postponed {
    uint32_t ordinal;
    lua_Integer anchor;
    const path_step *path;
} postponed;

// A global that a function reads and that differs from a fresh state's. The environment is at 0 in a Lua table, which is at
// -1 - `environment` in the one at `anchors`.
typedef struct global_read {
    uint32_t environment;
    lua_Integer anchor;  // of the name; the value follows
    const path_step *path;
} global_read;

// A growing array of anything.
typedef struct list {
    void *items;
    size_t count;
    size_t capacity;
} list;

typedef struct path_block {
    struct path_block *next;
    size_t count;
    path_step steps[256];
} path_block;

// A key that is kept: the next table of the same shape has it at the same place.
typedef struct known_key {
    const char *bytes;
    uint32_t number;
} known_key;

enum { KNOWN_KEYS = 16 };

typedef struct encoder {
    lua_State *L;
    parcel_writer writer;
    known_key known_keys[KNOWN_KEYS];  // by place in the table
    pointer_map met;       // tables, functions, kept strings, cells of upvalues, environments, codes
    uint32_t object_count;
    uint32_t string_count;
    uint32_t environment_count;
    list codes;            // clua_code *, retained
    list references;       // clua_reference, retained
    list strings;          // clua_shared_string *, owned; the last may be NULL
    clua_parcel_more *more;  // where these lists will be; NULL: in none
    list bodies;           // postponed; the objects are in the Lua table at `anchors`
    list globals;          // global_read; name and value are in the Lua table at `anchors`
    list rebuilt, found, fixups, levels;  // see parcel_rebuild.c
    int anchors;           // stack index of a table, which is made when something has to be kept
    lua_Integer anchor_count;
    bool is_tracking;      // whether paths are kept
    bool has_culprit;
    path_block *path_blocks;
    const path_step *path;
    struct analysis *analysis; // NULL for a parcel that is to be sent
    int count;             // how many values
    clua_parcel_role role;
} encoder;

/// A new item at the end of a list of items of this size.
void *encoder_append(encoder *e, list *list, size_t size);

/// The entry of an address that is met, perhaps for the first time. Valid until the next call.
pointer_entry *encoder_meet(encoder *e, const void *key, bool *found);

/// Keeps the value on top alive until the end: its address must not become another's. Pops it; returns its number. Needs no slot.
lua_Integer encoder_anchor(encoder *e);

/// A step after the path so far; NULL while no paths are kept.
const path_step *encoder_step(encoder *e, path_kind kind, lua_Integer number, const char *text, const char *label);

/// The number of the environment at `index`, of the code of a function.
uint32_t encoder_environment(encoder *e, int index);
uint32_t encoder_code(encoder *e, clua_code *code);

/// The environment on top is upvalue number `upvalue` of a function with this code: what the function reads there, and is not as in
/// a fresh state, comes along. Needs 12 stack slots.
void encoder_note_globals(encoder *e, const clua_code *code, int upvalue);

/// The last step of writing: room for what the parcel will have besides bytes and one code. Raises for lack of memory.
void encoder_need_more(encoder *e);

/// Never raise: hand what was written to `parcel`; give back everything that no parcel has taken over.
void encoder_fill(encoder *e, clua_parcel *parcel);
void encoder_free(encoder *e);

#endif
