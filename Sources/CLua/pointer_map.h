// Internal to this folder: a hash table from addresses to numbers, for values met while encoding.
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

enum { POINTER_MAP_INLINE = 8 };

typedef struct pointer_map {
    pointer_entry *entries;  // `first` until it is full
    size_t capacity;         // a power of two
    size_t count;
    pointer_entry first[POINTER_MAP_INLINE];
} pointer_map;

void pointer_map_init(pointer_map *map);
void pointer_map_free(pointer_map *map);

/// The entry for `key`; `*found` says whether it was there. A new one is to be filled in. NULL when memory ran out. Valid until the
/// next call.
pointer_entry *pointer_map_get(pointer_map *map, const void *key, bool *found);

#endif
