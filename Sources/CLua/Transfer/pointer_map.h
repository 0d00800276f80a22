// A hash table from addresses to numbers, for values met while encoding.
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

/// Stays where it is: it may point into itself.
typedef struct pointer_map {
    pointer_entry *entries;  // one after the other; `few`, or owned
    uint32_t *index;         // by address: 1 + number of an entry, or 0; `few_index`, or owned
    size_t capacity;         // for how many entries there is room, a power of two; the index is twice as long
    size_t count;
    pointer_entry few[POINTER_MAP_FEW];
    uint32_t few_index[2 * POINTER_MAP_FEW];
} pointer_map;

void pointer_map_init(pointer_map *map);
void pointer_map_free(pointer_map *map);

/// The entry for `key`; `*found` says whether it was there. A new one is to be filled in. NULL when memory ran out. Valid until the
/// next call.
pointer_entry *pointer_map_get(pointer_map *map, const void *key, bool *found);

#endif
