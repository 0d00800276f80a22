// The changes that the script has made in the modules and libraries that a body uses. May raise.
//
// A change is written as a fixup whose container is a module, or a table in a field of one.
#ifndef CLUA_PARCEL_CHANGES_H
#define CLUA_PARCEL_CHANGES_H

#include "Transfer/encoder.h"

/// Notes the changes of the modules and libraries that a value uses. The value travels by name. Stack: the value, the name of its module at
/// `name`, its field or nil. Needs 20 slots.
void changes_of_named(encoder *e, int name);

/// A function reads a global that has the value on top, as in a fresh state. Notes the changes of the fields, or of the required module, that the
/// function uses. Needs 20 slots.
void changes_of_global(encoder *e, const clua_global_read *read);

/// Notes the changes of the methods of strings that a function may call. Needs 20 slots.
void changes_of_methods(encoder *e, const clua_code *code);

/// Writes the globals with plain values, which modules may read while they are loaded, before all values.
void changes_write_switches(encoder *e);

/// Writes the next change. Returns false if there is none.
bool changes_write_next(encoder *e);

#endif
