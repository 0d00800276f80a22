#include "pointer_map.h"

#include <stdlib.h>
#include <string.h>

void pointer_map_init(pointer_map *map) {
    memset(map->first, 0, sizeof map->first);
    map->entries = map->first;
    map->capacity = POINTER_MAP_INLINE;
    map->count = 0;
}

void pointer_map_free(pointer_map *map) {
    if (map->entries != map->first) free(map->entries);
    pointer_map_init(map);
}

// Addresses are multiples of 8 or 16; a multiplication spreads them.
static size_t slot_of(const void *key, size_t capacity) {
    return (size_t)(((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u) >> 20) & (capacity - 1);
}

static pointer_entry *probe(pointer_entry *entries, size_t capacity, const void *key) {
    size_t slot = slot_of(key, capacity);
    while (entries[slot].key != NULL && entries[slot].key != key) slot = (slot + 1) & (capacity - 1);
    return &entries[slot];
}

static bool grow(pointer_map *map) {
    size_t capacity = map->capacity * 4;
    pointer_entry *entries = calloc(capacity, sizeof *entries);
    if (entries == NULL) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].key != NULL) *probe(entries, capacity, map->entries[i].key) = map->entries[i];
    if (map->entries != map->first) free(map->entries);
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

pointer_entry *pointer_map_get(pointer_map *map, const void *key, bool *found) {
    pointer_entry *entry = probe(map->entries, map->capacity, key);
    *found = entry->key != NULL;
    if (*found) return entry;
    if (map->count + map->count / 2 >= map->capacity) {
        if (!grow(map)) return NULL;
        entry = probe(map->entries, map->capacity, key);
    }
    entry->key = key;
    map->count++;
    return entry;
}
