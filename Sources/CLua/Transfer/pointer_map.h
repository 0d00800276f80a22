// A hash table from addresses to numbers, for the values that the encoder meets.
#ifndef CLUA_POINTER_MAP_H
#define CLUA_POINTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pointer_entry {
    const void *key;
    size_t offset;     // of the tag in the bytes
    uint32_t ordinal;
    uint32_t number;
} pointer_entry;

enum { POINTER_MAP_FEW = 8 };

/// Must not move, because it may point into itself.
typedef struct pointer_map {
    pointer_entry *entries;  // in insertion order; `few`, or owned
    uint32_t *index;         // by address: 1 + index of an entry, or 0; `few_index`, or owned
    size_t capacity;         // of `entries`, a power of two; the index has twice the size
    size_t count;
    pointer_entry few[POINTER_MAP_FEW];
    uint32_t few_index[2 * POINTER_MAP_FEW];
} pointer_map;

void pointer_map_init(pointer_map *map);
void pointer_map_free(pointer_map *map);

/// Returns the entry for `key`; NULL if there is none.
const pointer_entry *pointer_map_find(const pointer_map *map, const void *key);

/// Returns the entry for `key`, valid until the next call. The caller fills in a new entry, for which `*found` is false. Returns NULL if
/// memory runs out.
pointer_entry *pointer_map_get(pointer_map *map, const void *key, bool *found);

#endif
