// The objects of the host that a worker process knows, by number. Nothing here raises.
#ifndef CLUA_EXPORTS_H
#define CLUA_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parcel.h"

typedef struct exports {
    clua_reference *objects;  // by number, retained; the object is NULL for an unused number
    size_t count, capacity;
    size_t used;
    size_t unused;    // all lower numbers are in use
    uint32_t *index;  // by address: 1 + number, or 0; open addressing; a power of two, at least twice the capacity
    size_t index_size;
} exports;

void exports_free(exports *exports);

/// Finds the number of an object. Retains the object if it is new. False if memory has run out.
bool exports_number(exports *exports, void *object, int kind, uint32_t *number, bool *is_new);

/// The object with this number; NULL if there is none.
const clua_reference *exports_find(const exports *exports, uint64_t number);

/// Releases the object with this number, if there is one.
void exports_release(exports *exports, uint64_t number);

#endif
