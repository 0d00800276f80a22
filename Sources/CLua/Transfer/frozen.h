// Frozen values: immutable tables, and what they contain, in memory of their own. All states of a process read them at once.
//
// opscript.freeze copies a value into one *owner*, which holds everything that was frozen together, and is counted. States see each of the
// owner's tables as a userdata, the table's *view*. A state has one view for each table. Parcels refer to tables, too. After freezing, only
// the counts change.
#ifndef CLUA_TRANSFER_FROZEN_H
#define CLUA_TRANSFER_FROZEN_H

#include <lua5.4/lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "Transfer/shared_string.h"
#include "parcel.h"
#include "state.h"

typedef struct frozen_string {
    size_t count;
    uint32_t hash;
    const char *bytes;  // a zero follows
} frozen_string;

/// A value that each state makes for itself: an object of the host, a function, or a value that travels by name.
typedef struct frozen_leaf {
    clua_parcel parcel;    // owned
    const void *identity;  // the object of the host; NULL for others
    const frozen_string *module, *field;  // the name of a value that travels by name; `field` may be NULL
} frozen_leaf;

typedef enum frozen_tag {
    FROZEN_FALSE,
    FROZEN_TRUE,
    FROZEN_INTEGER,
    FROZEN_FLOAT,
    FROZEN_STRING,
    FROZEN_TABLE,
    FROZEN_OBJECT,    // leaf
    FROZEN_NAMED,     // leaf
    FROZEN_FUNCTION,  // leaf; never a key
    FROZEN_NIL        // only among the elements
} frozen_tag;

typedef struct frozen_value {
    union {
        lua_Integer integer;
        lua_Number number;
        const frozen_string *string;
        const struct frozen_table *table;  // of this owner, or of one that this owner retains
        frozen_leaf *leaf;
    };
    frozen_tag tag;
} frozen_value;

typedef struct frozen_pair {
    frozen_value key, value;
} frozen_pair;

typedef struct frozen_table {
    struct clua_frozen *owner;
    const frozen_value *elements;  // 1, 2, 3 …, as many as `#` returns; nils may be among them
    const frozen_pair *pairs;
    const uint32_t *index;  // a hash table: 1 + the number of a pair, or 0
    uint32_t element_count, pair_count;
    uint32_t index_mask;
} frozen_table;

typedef struct frozen_block {
    struct frozen_block *next;
    size_t used, size;  // of `bytes`
    _Alignas(16) uint8_t bytes[];
} frozen_block;

typedef struct clua_frozen {
    atomic_size_t references;
    size_t size;            // bytes that were allocated, and of the long strings
    bool has_objects;       // whether it has objects of the host
    frozen_block *blocks;   // owned
    frozen_leaf **leaves;   // owned list
    clua_shared_string **strings;       // owned list: long strings
    const frozen_table **nested;        // owned list: tables of other owners, each retained
    size_t leaf_count, string_count, nested_count;
    // The state that has frozen the value is charged for the value as long as the state has views of it.
    _Atomic(clua_state *) home;
    size_t charged;         // only the thread of `home` uses these two
    size_t home_views;
    _Atomic(struct clua_ledger *) ledger;  // owned: counts the value as long as it lives; NULL for none
    struct clua_frozen *next;  // in a list of those to be destroyed
} clua_frozen;

/// From any thread, and never raise. Releasing the last reference destroys the value, which may run foreign code if it `has_objects`.
void clua_frozen_retain(const frozen_table *table);
void clua_frozen_release(const frozen_table *table);

/// Counts the value in a ledger, unless one counts it already.
void clua_frozen_charge(clua_frozen *owner, struct clua_ledger *ledger);

/// Frees an owner to which nothing refers, and what it retains.
void clua_frozen_destroy(clua_frozen *owner);

/// Memory of the owner, aligned to 16 bytes. `more` allocates a block for this and for later memory. NULL if memory has run out.
void *frozen_allocate(clua_frozen *owner, size_t size, void *(*more)(void *context, size_t size), void *context);

/// The number of slots of the index of a table with so many pairs, at least one.
uint32_t frozen_index_size(uint32_t pair_count);

/// Gives a table an index with so many slots. The table keeps the memory. Returns false if two keys are equal.
bool frozen_make_index(frozen_table *table, uint32_t *index, uint32_t size);

/// The hash of a string. The secret differs from process to process.
uint32_t frozen_hash(const char *bytes, size_t count);

/// A random number of this process. Set when the first state opens, before anything is frozen.
extern uint64_t clua_frozen_secret;

/// The hash of a key.
uint32_t frozen_key_hash(const frozen_value *key);

/// The value of a key; NULL if there is none. Never raise.
const frozen_value *frozen_find_string(const frozen_table *table, const char *bytes, size_t count);
const frozen_value *frozen_find(const frozen_table *table, const frozen_value *key);

static inline const frozen_value *frozen_find_integer(const frozen_table *table, lua_Integer number) {
    if ((lua_Unsigned)number - 1u < table->element_count) return &table->elements[number - 1];
    if (table->pair_count == 0) return NULL;
    return frozen_find(table, &(frozen_value){.integer = number, .tag = FROZEN_INTEGER});
}

/// Freezes the table at stack index 1 in protected mode. Returns LUA_OK and a table with one reference, or a status with a message pushed.
int clua_freeze(lua_State *L, const frozen_table **table);

/// The table of the view at `index`; NULL for other values. Never raises.
const frozen_table *clua_to_frozen(lua_State *L, int index);

/// Pushes this state's view of a table, which retains it. May raise. Reserves its own slots.
void clua_push_frozen(lua_State *L, const frozen_table *table);

/// `opscript.freeze`.
int clua_freeze_here(lua_State *L);

/// A Lua function: returns the value of the view at stack index 1 for the key at stack index 2.
int clua_frozen_field_here(lua_State *L);

/// A Lua function: returns a list of the keys of the view at stack index 1.
int clua_frozen_keys_here(lua_State *L);

/// A Lua function: returns an ordinary copy of the view at stack index 1, and any other value as it is.
int clua_thaw_here(lua_State *L);

/// Called when Lua frees `block`, which has the size of a view's block. Never raises.
void clua_frozen_view_is_freed(clua_state *state, void *block);

/// Destroys the owners that were not destroyed at once, because that may run foreign code. Never raises.
void clua_destroy_dead_frozen(clua_state *state);

/// Sets clua_frozen_secret. Any thread. Never raises.
void clua_make_frozen_secret(void);

/// Gives the module on top the functions for frozen values. May raise. Needs 2 free stack slots.
void clua_open_frozen(lua_State *L);

#endif
