// Objects whose metatable has __transfer, and new iterators of the standard libraries. May raise, except where noted.
//
// Such an object is rebuilt at the end, after all tables, functions and globals are complete. At first, its place stays empty: a fixup waits
// until the object has been made. Objects among the arguments of another object are made before it. So neither the order of references nor
// cycles matter.
#ifndef CLUA_PARCEL_REBUILD_H
#define CLUA_PARCEL_REBUILD_H

#include "Transfer/encoder.h"

/// Stack: a key, a value. They belong to the table or function at `container` (the key is then the upvalue's number), or to the values of
/// the parcel if `container` is 0. If one of them is still to be rebuilt, adds a fixup and returns true; the caller must not write them.
/// Leaves the stack unchanged. Needs 12 slots.
bool rebuild_later(encoder *e, int container);

/// Stack: a container, a key, a value. Writes the field in a record of its own: now, or when key and value have been made. Leaves the stack
/// unchanged. Needs 12 slots.
void encode_field(encoder *e);

/// Whether the value at `index`, of this type, may have to be rebuilt: it has a metatable, or is a C function. Never raises. Needs 1 slot.
static inline bool rebuild_possible(lua_State *L, int index, int type) {
    if (type == LUA_TFUNCTION) return lua_iscfunction(L, index);
    if ((type != LUA_TTABLE && type != LUA_TUSERDATA) || !lua_getmetatable(L, index)) return false;
    lua_pop(L, 1);
    return true;
}

/// Whether the table or function at the stack index is not rebuilt, and travels neither by reference nor by name. Needs 5 slots.
bool travels_by_value(lua_State *L, int index);

/// Writes the next record for rebuilding. Returns false if there is none. All bodies and globals must be written before.
bool rebuild_next(encoder *e);

/// Parts of parcel_encode.c that rebuilding and classes use. The first writes the value on top and leaves it there; the second starts an object
/// that was not met before.
void encode_value(encoder *e, int depth);
uint32_t encode_begin(encoder *e, pointer_entry *entry, uint8_t tag);

/// Returns the entry of a new object. For an object met before, writes a reference to it and returns NULL.
pointer_entry *encode_again(encoder *e, const void *pointer);

/// Encodes all values. Stack: the encoder as light userdata, the values, and in an analysis pass the records.
int encode_all(lua_State *L);

/// Schedules the body of the object on top to follow in a record.
void encode_later(encoder *e, uint32_t ordinal);

#endif
