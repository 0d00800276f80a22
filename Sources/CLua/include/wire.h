// Parcels as other machines get them: the bytes and the code. The host itself sends the long strings, the frozen values and the objects that the
// parcel refers to. The form changes with the version of opscript. Nothing here raises; any thread.
#ifndef CLUA_WIRE_H
#define CLUA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parcel.h"

/// Gets the code of each function that is written or read. Returns false to refuse it: then writing or reading fails.
typedef struct clua_code_visitor {
    void *context;
    bool (*visit)(void *context, struct clua_code *code);
} clua_code_visitor;

/// Writes the bytes and the code of a parcel. `*bytes` comes from malloc. `visitor` may be NULL. Returns false if memory has run out.
bool clua_wire_write(const clua_parcel *parcel, const clua_code_visitor *visitor, uint8_t **bytes, size_t *count);

/// Whether the function of a body has parameters. The first one is its operation.
bool clua_wire_has_parameters(const clua_parcel *parcel);

/// Where the first function of a parcel is defined, as in "<pipeline.lua:12>"; NULL if there is none. Lives as long as the parcel.
const char *clua_wire_place(const clua_parcel *parcel);

/// Reads what clua_wire_write has written, which need not be trusted. Takes over the strings, the references and the frozen values, also if it
/// fails. With a `visitor`, the parcel is a worker's: it runs no code on arrival (CLUA_FROM_PROCESS). Returns false, with an empty parcel, for any
/// other bytes, for refused code, and if memory has run out.
bool clua_wire_read(const uint8_t *bytes, size_t count, struct clua_shared_string *const *strings, size_t string_count,
                    const clua_reference *references, size_t reference_count, const struct frozen_table *const *frozen, size_t frozen_count,
                    const clua_code_visitor *visitor, clua_parcel *parcel);

/// Calls `visit` with the bytes of the function of a code and of each one nested in it. The outermost one is the last. The bytes are in two parts, and
/// are the same wherever the function is dumped: its source, and the places of its upvalues, are left out. Returns false if memory has run out.
bool clua_wire_functions(const struct clua_code *code, void *context,
                         void (*visit)(void *context, const uint8_t *first, size_t first_count, const uint8_t *second, size_t second_count));

/// Marks a code as sent to another machine, and returns whether it is marked.
void clua_wire_mark_sent(struct clua_code *code);
bool clua_wire_was_sent(const struct clua_code *code);

/// Where the function of a code is defined. Lives as long as the code.
const char *clua_wire_place_of_code(const struct clua_code *code);

/// Compiles a text, and does not run it. NULL if the text has an error, and if memory has run out. The caller releases the code.
struct clua_code *clua_wire_compile(const char *text, size_t count, const char *name);
void clua_wire_release_code(struct clua_code *code);

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
bool clua_wire_write_frozen(const struct frozen_table *table, const clua_code_visitor *visitor, uint8_t **bytes, size_t *count,
                            const char **refusal);

/// Reads what clua_wire_write_frozen has written, which need not be trusted. `visitor` is that of clua_wire_read. Returns a table that the caller has
/// to release, or NULL for any other bytes, for refused code, and if memory has run out. No state is charged for it.
const struct frozen_table *clua_wire_read_frozen(const uint8_t *bytes, size_t count, const clua_code_visitor *visitor);

/// Retains a frozen value, and releases one.
void clua_wire_retain_frozen(const struct frozen_table *table);
void clua_wire_release_frozen(const struct frozen_table *table);

/// Whether there is more than one reference to the value.
bool clua_wire_frozen_is_shared(const struct frozen_table *table);

#endif
