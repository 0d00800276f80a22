// Classes and registries in a parcel. May raise.
//
// The contents of a class travel by value, and its number at the end of the parcel. A receiver that has the table of the number reads the contents
// and drops them. A registry of a module travels by name, and its entries for objects of the parcel in records.
#ifndef CLUA_PARCEL_IDENTITY_H
#define CLUA_PARCEL_IDENTITY_H

#include "Transfer/decoder_raising.h"
#include "Transfer/encoder.h"
#include "Transfer/identity_raising.h"

/// The table on top was written by value. Adds its number, once, if it is a class.
void identity_note(encoder *e, bool is_metatable);

/// The metatable on top was written at this offset, as that of the table below it.
void identity_note_metatable(encoder *e, size_t tag_at);

/// The table on top has weak keys and was written by name.
void identity_note_registry(encoder *e);

/// Writes the entries of a registry whose keys are objects of the parcel. `number` counts the registries from 0.
void identity_write_registry(encoder *e, size_t number);

/// Writes the numbers that were added since the last call.
void identity_write(encoder *e);

/// Reads the numbers at the end of the reader's bytes, before everything else.
void identity_read(decoder *d);

/// Writes the classes with numbers that the values have, before everything else.
void classes_write(encoder *e);

/// Moves their bytes to a long string, after everything else.
void classes_share(encoder *e);

/// Reads them.
void classes_read(decoder *d);

/// The new table on top has this ordinal. If it is a copy of a class that the state has, replaces the copy by the class, and returns true.
bool identity_find(decoder *d, uint32_t ordinal);

/// Everything has arrived. Only now the new classes are the state's own, so that no other parcel gets one that lacks something.
void identity_keep(decoder *d);

/// Whether the state had the table with this ordinal, or at this stack index, before.
bool identity_had(decoder *d, uint32_t ordinal);
bool identity_had_table(decoder *d, int index);

/// Stack: a table that the state had before, a copy of it. Pops the copy. A registry gets the entries that it lacks.
void identity_drop_copy(decoder *d);

#endif
