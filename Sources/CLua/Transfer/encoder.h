// The encoder's state. Functions may raise, except where noted.
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

// A global that a function reads and whose value differs from a fresh state's. The table at `anchors` has, at -1 - `environment`, a Lua
// table with the environment at 0.
typedef struct global_read {
    uint32_t environment;
    lua_Integer anchor;  // of the name; the value follows
    const path_step *path;
} global_read;

// A table of a class, and its number.
typedef struct identified {
    uint32_t ordinal;
    lua_Integer number;
} identified;

// The number of a table in its entry says whether the table is a class. An object to be rebuilt has a low number there.
enum {
    TABLE_HAS_NO_IDENTITY = UINT32_MAX - 3,  // unless it is a metatable
    TABLE_HAS_IDENTITY,
    TABLE_IS_METATABLE,
    TABLE_IS_METATABLE_OF_REGISTRIES
};

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

// A key that was written. The next table of the same shape has it at the same position.
typedef struct known_key {
    const char *bytes;
    uint32_t number;
} known_key;

enum { KNOWN_KEYS = 16 };

typedef struct encoder {
    lua_State *L;
    parcel_writer writer;
    known_key known_keys[KNOWN_KEYS];  // by position in the table
    pointer_map met;       // tables, functions, kept strings, upvalue cells, environments, codes
    size_t classes_end;    // where the bytes of the classes end that were written first; 0 for none
    uint32_t object_count;
    uint32_t string_count;
    uint32_t environment_count;
    list codes;            // clua_code *, retained
    list references;       // clua_reference, retained
    list strings;          // clua_shared_string *, owned; the last may be NULL
    list frozen;           // const frozen_table *, retained
    clua_parcel_more *more;  // the future owner of these lists; NULL if the parcel needs none
    list bodies;           // postponed; the objects are in the Lua table at `anchors`
    list globals;          // global_read; name and value are in the Lua table at `anchors`
    list rebuilt, found, fixups, levels;  // see parcel_rebuild.c
    list changes;          // see parcel_changes.c
    size_t written_changes;
    bool sends_changes;    // for a body: with what the script has changed in the modules that it uses
    list switches;         // lua_Integer: the anchor of a name, which its value follows
    lua_Integer noted;     // anchor of the set of noted fields of each container; 0 before it is needed
    lua_Integer changed_globals;  // anchor of the table of globals that differ from a fresh state's; 0 before it is needed
    bool has_libraries;    // the changes of libraries are among them
    list identities;       // identified
    list registries;       // lua_Integer, the anchor: tables with weak keys that travel by name
    int anchors;           // stack index of the table that keeps values alive, created on first use
    lua_Integer anchor_count;
    bool is_tracking;      // whether paths are recorded
    bool has_culprit;
    path_block *path_blocks;
    const path_step *path;
    struct analysis *analysis;  // NULL for a parcel that is to be sent
    int count;             // the number of values
    clua_parcel_role role;
} encoder;

/// Appends an item to a list of items of this size.
void *encoder_append(encoder *e, list *list, size_t size);

/// Returns the entry of an address, new or old. It is valid until the next call.
pointer_entry *encoder_meet(encoder *e, const void *key, bool *found);

/// Keeps the value on top alive until the end, so that its address stays unique. Pops it and returns its number. Reserves its own slots.
lua_Integer encoder_anchor(encoder *e);

/// Appends a step to the current path. Returns NULL while paths are not recorded.
const path_step *encoder_step(encoder *e, path_kind kind, lua_Integer number, const char *text, const char *label);

/// The path step to the value on top, whose key is below it.
const path_step *encoder_field_step(encoder *e);

/// The number of the environment at `index`, or of a function's code.
uint32_t encoder_environment(encoder *e, int index);
uint32_t encoder_code(encoder *e, clua_code *code);

/// The environment on top is upvalue `upvalue` of a function with this code. Adds the globals that the function reads there and that differ
/// from a fresh state's, and the script's changes in the others. Needs 20 stack slots.
void encoder_note_globals(encoder *e, const clua_code *code, int upvalue);

/// Adds the global whose name is on top, read by the function `label` in the environment below it, number `environment`. Pops the name.
/// Returns false, and pushes the value instead, if that is a fresh state's. Needs 12 stack slots.
bool encoder_note_global(encoder *e, uint32_t environment, const char *label);

/// The last step that may raise: allocates `more`, which a parcel needs unless it has only bytes and one code.
void encoder_need_more(encoder *e);

/// Never raise. The first moves the result to `parcel`; the second frees everything that no parcel has taken over.
void encoder_fill(encoder *e, clua_parcel *parcel);

/// clua_encode without the limit of what is kept.
int encode_values(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel);
void encoder_free(encoder *e);

#endif
