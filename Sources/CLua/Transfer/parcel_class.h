// Writing classes of operations, and operations with their classes. May raise.
#ifndef CLUA_PARCEL_CLASS_H
#define CLUA_PARCEL_CLASS_H

#include "Transfer/encoder.h"
#include "object.h"

/// Writes the reference that the handle is, and the class of an operation with it. Needs 8 slots.
void encode_handle(encoder *e, const clua_handle *handle);

/// Writes the class table on top, whose contents follow in a record. `class`: the handle of what it stands for. Needs 8 slots.
void encode_class(encoder *e, const clua_handle *class);

/// Writes the record of the contents of the class table on top. Needs 12 slots.
void encode_class_record(encoder *e, uint32_t ordinal);

#endif
