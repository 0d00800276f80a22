// The changes that the script has made in the modules and libraries that a body uses. May raise.
//
// A change is written as a fixup whose container is a module, or a table in a field of one.
#ifndef CLUA_PARCEL_CHANGES_H
#define CLUA_PARCEL_CHANGES_H

#include "Transfer/encoder.h"

/// Notes the changes of what a value uses that travels by name. Stack: the value, the name of its module at `name`, its field or nil. Needs
/// 20 slots.
void changes_of_named(encoder *e, int name);

/// Notes the changes of what a function uses of the value on top, which the global that it reads has, as in a fresh state. Needs 20 slots.
void changes_of_global(encoder *e, const clua_global_read *read);

/// Notes the changes of the methods of strings that a function may call. Needs 20 slots.
void changes_of_methods(encoder *e, const clua_code *code);

/// Puts the globals with plain values, which modules may read while they are loaded, before all values.
void changes_write_switches(encoder *e);

/// Writes the next change. Returns false if there is none.
bool changes_write_next(encoder *e);

#endif
