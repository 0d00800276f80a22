// The places of a table's array part in a parcel. May raise.
#ifndef CLUA_PARCEL_PLACES_H
#define CLUA_PARCEL_PLACES_H

#include "Transfer/encoder.h"

/// The first `count` values of the table at `table` were written. Writes the nils before the key at `index`, and returns true. If the key has no
/// place in the copy's array part, writes nils for the rest of the array part and returns false. `places` is the number of places, or 0 as long
/// as no value was missing. Needs 4 slots.
bool encode_nils(encoder *e, int table, int index, uint32_t *count, lua_Integer *places);

/// Writes the numbers of places and pairs for the table on top, whose body follows in a record. Needs 6 slots.
void encode_room(encoder *e);

#endif
