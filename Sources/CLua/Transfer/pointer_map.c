#include "Transfer/pointer_map.h"

#include <stdlib.h>
#include <string.h>

void pointer_map_init(pointer_map *map) {
    memset(map->few_index, 0, sizeof map->few_index);
    map->entries = map->few;
    map->index = map->few_index;
    map->capacity = POINTER_MAP_FEW;
    map->count = 0;
}

void pointer_map_free(pointer_map *map) {
    if (map->entries != map->few) {
        free(map->entries);
        free(map->index);
    }
    pointer_map_init(map);
}

// Addresses are multiples of 8 or 16, so a multiplication spreads them.
static size_t slot_of(const void *key, size_t mask) { return (size_t)(((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u) >> 20) & mask; }

static uint32_t *free_slot(uint32_t *index, size_t mask, const void *key) {
    size_t slot = slot_of(key, mask);
    while (index[slot] != 0) slot = (slot + 1) & mask;
    return &index[slot];
}

static bool grow(pointer_map *map) {
    bool are_few = map->entries == map->few;
    size_t capacity = map->capacity * 4;
    uint32_t *index = calloc(2 * capacity, sizeof *index);
    pointer_entry *entries = index == NULL ? NULL : realloc(are_few ? NULL : map->entries, capacity * sizeof *entries);
    if (entries == NULL) {
        free(index);
        return false;
    }
    if (are_few)
        memcpy(entries, map->few, sizeof map->few);
    else
        free(map->index);
    for (uint32_t i = 0; i < map->count; i++) *free_slot(index, 2 * capacity - 1, entries[i].key) = i + 1;
    map->entries = entries;
    map->index = index;
    map->capacity = capacity;
    return true;
}

const pointer_entry *pointer_map_find(const pointer_map *map, const void *key) {
    size_t mask = 2 * map->capacity - 1, slot = slot_of(key, mask);
    for (; map->index[slot] != 0; slot = (slot + 1) & mask)
        if (map->entries[map->index[slot] - 1].key == key) return &map->entries[map->index[slot] - 1];
    return NULL;
}

pointer_entry *pointer_map_get(pointer_map *map, const void *key, bool *found) {
    size_t mask = 2 * map->capacity - 1, slot = slot_of(key, mask);
    for (; map->index[slot] != 0; slot = (slot + 1) & mask) {
        pointer_entry *entry = &map->entries[map->index[slot] - 1];
        if (entry->key != key) continue;
        *found = true;
        return entry;
    }
    *found = false;
    uint32_t *target = &map->index[slot];
    if (map->count == map->capacity) {
        if (!grow(map)) return NULL;
        target = free_slot(map->index, 2 * map->capacity - 1, key);
    }
    pointer_entry *entry = &map->entries[map->count++];
    *entry = (pointer_entry){.key = key};
    *target = (uint32_t)map->count;
    return entry;
}
