// Encoding operation classes, and operations with their classes. May raise.
#ifndef CLUA_PARCEL_CLASS_H
#define CLUA_PARCEL_CLASS_H

#include "Transfer/encoder.h"
#include "object.h"

/// Writes the handle's reference, and the class of an operation. Needs 8 slots.
void encode_handle(encoder *e, const clua_handle *handle);

/// Writes the class table on top. Its contents follow in a record. `class` is the handle of the class object. Needs 8 slots.
void encode_class(encoder *e, const clua_handle *class);

/// Writes the record with the contents of the class table on top. Needs 12 slots.
void encode_class_record(encoder *e, uint32_t ordinal);

#endif
