// Parcels as other machines get them: the bytes and the code. The host itself sends the long strings, the frozen values and the objects that the
// parcel refers to. The form changes with the version of opscript. Nothing here raises; any thread.
#ifndef CLUA_WIRE_H
#define CLUA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parcel.h"

/// Writes the bytes and the code of a parcel. `*bytes` comes from malloc. Returns false if memory has run out.
bool clua_wire_write(const clua_parcel *parcel, uint8_t **bytes, size_t *count);

/// Whether the function of a body has parameters. The first one is its operation.
bool clua_wire_has_parameters(const clua_parcel *parcel);

/// Where the first function of a parcel is defined, as in "<pipeline.lua:12>"; NULL if there is none. Lives as long as the parcel.
const char *clua_wire_place(const clua_parcel *parcel);

/// Reads what clua_wire_write has written, which need not be trusted. Takes over the strings, the references and the frozen values, also if it
/// fails. Returns false, with an empty parcel, for any other bytes, and if memory has run out.
bool clua_wire_read(const uint8_t *bytes, size_t count, struct clua_shared_string *const *strings, size_t string_count,
                    const clua_reference *references, size_t reference_count, const struct frozen_table *const *frozen, size_t frozen_count,
                    clua_parcel *parcel);

/// The bytes of a long string of a parcel, which live as long as the string is retained.
const char *clua_wire_string(const struct clua_shared_string *string, size_t *count);

/// Retains a long string, and releases one.
void clua_wire_retain(struct clua_shared_string *string);
void clua_wire_release(struct clua_shared_string *string);

/// A long string with a copy of these bytes. NULL if memory has run out.
struct clua_shared_string *clua_wire_copy(const char *bytes, size_t count);

/// A long string whose bytes an object of the host has and never changes. If `has_room` is not NULL, CLUA_STRING_ROOM bytes before the bytes, aligned
/// for a pointer, and one byte after them have room for one Lua string at a time. `*has_room`, 1 at first, says whether that room is free; this layer
/// changes it. Takes over a reference to the object. NULL if memory has run out.
struct clua_shared_string *clua_wire_string_of_object(const char *bytes, size_t count, void *has_room, void *object);

/// Writes a frozen value and all that it contains. `*bytes` comes from malloc. Returns false if memory has run out, or if the table
/// contains a value that cannot be written. `*refusal` then names it, such as "an operation or another object in it".
bool clua_wire_write_frozen(const struct frozen_table *table, uint8_t **bytes, size_t *count, const char **refusal);

/// Reads what clua_wire_write_frozen has written, which need not be trusted. Returns a table that the caller has to release, or NULL for any other
/// bytes, and if memory has run out. No state is charged for it.
const struct frozen_table *clua_wire_read_frozen(const uint8_t *bytes, size_t count);

/// Retains a frozen value, and releases one.
void clua_wire_retain_frozen(const struct frozen_table *table);
void clua_wire_release_frozen(const struct frozen_table *table);

/// Whether there is more than one reference to the value.
bool clua_wire_frozen_is_shared(const struct frozen_table *table);

#endif
