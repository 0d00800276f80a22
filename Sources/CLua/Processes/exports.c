#include "Processes/exports.h"

#include <stdlib.h>
#include <string.h>

#include "Objects/Objects.h"

void exports_free(exports *exports) {
    for (size_t i = 0; i < exports->count; i++)
        if (exports->objects[i].object != NULL) clua_object_release(exports->objects[i].object);
    free(exports->objects);
    free(exports->index);
}

// The place in the index that has the address, or else the free place where the address belongs.
static size_t place_of(const exports *exports, const void *object) {
    size_t mask = exports->index_size - 1;
    size_t place = (size_t)(((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    while (exports->index[place] != 0 && exports->objects[exports->index[place] - 1].object != object) place = (place + 1) & mask;
    return place;
}

static bool grow(exports *exports) {
    size_t capacity = exports->capacity == 0 ? 16 : 2 * exports->capacity;
    if (capacity > UINT32_MAX / 2) return false;
    clua_reference *objects = realloc(exports->objects, capacity * sizeof *objects);
    if (objects == NULL) return false;
    exports->objects = objects;
    uint32_t *index = calloc(2 * capacity, sizeof *index);
    if (index == NULL) return false;
    free(exports->index);
    exports->index = index;
    exports->index_size = 2 * capacity;
    exports->capacity = capacity;
    for (size_t i = 0; i < exports->count; i++)
        if (objects[i].object != NULL) index[place_of(exports, objects[i].object)] = (uint32_t)i + 1;
    return true;
}

bool exports_number(exports *exports, void *object, int kind, uint32_t *number, bool *is_new) {
    if (exports->used == exports->capacity && !grow(exports)) return false;
    size_t place = place_of(exports, object);
    *is_new = exports->index[place] == 0;
    if (*is_new) {
        size_t unused = exports->unused;
        while (unused < exports->count && exports->objects[unused].object != NULL) unused++;
        if (unused == exports->count) exports->count++;
        clua_object_retain(object);
        exports->objects[unused] = (clua_reference){object, kind, false};
        exports->index[place] = (uint32_t)unused + 1;
        exports->unused = unused + 1;
        exports->used++;
    }
    *number = exports->index[place] - 1;
    return true;
}

const clua_reference *exports_find(const exports *exports, uint64_t number) {
    if (number >= exports->count || exports->objects[number].object == NULL) return NULL;
    return &exports->objects[number];
}

void exports_release(exports *exports, uint64_t number) {
    if (exports_find(exports, number) == NULL) return;
    void *object = exports->objects[number].object;
    size_t mask = exports->index_size - 1, hole = place_of(exports, object);
    exports->index[hole] = 0;
    exports->objects[number].object = NULL;
    exports->used--;
    if (number < exports->unused) exports->unused = (size_t)number;
    // Entries that follow may belong in the hole.
    for (size_t place = (hole + 1) & mask; exports->index[place] != 0; place = (place + 1) & mask) {
        uint32_t entry = exports->index[place];
        exports->index[place] = 0;
        exports->index[place_of(exports, exports->objects[entry - 1].object)] = entry;
    }
    clua_object_release(object);
}
