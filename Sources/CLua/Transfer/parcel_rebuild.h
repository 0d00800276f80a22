// Objects whose metatable has __transfer. May raise.
//
// Such an object is made again last, when all else is complete: tables, functions, the globals that these read. Wherever it belongs
// nothing is written at first; the place waits until the object has been made. Objects among the arguments of another are made
// before it. So it does not matter in which order values refer to each other, nor whether in a circle.
#ifndef CLUA_PARCEL_REBUILD_H
#define CLUA_PARCEL_REBUILD_H

#include "Transfer/encoder.h"

/// With a key and a value on top that belong into the table or function at `container` (the key is then the upvalue's number), or, when
/// that is 0, among the values of the parcel: whether one of them is still to be rebuilt. If so the place waits, and nothing is to be
/// written for it. Leaves the stack. Needs 12 slots.
bool rebuild_later(encoder *e, int container);

/// Whether the value at `index`, of that type, can have to be rebuilt: nothing without a metatable has. Needs 1 slot.
static inline bool rebuild_possible(lua_State *L, int index, int type) {
    if ((type != LUA_TTABLE && type != LUA_TUSERDATA) || !lua_getmetatable(L, index)) return false;
    lua_pop(L, 1);
    return true;
}

/// Writes the next record that has to do with rebuilding; false when there is none. All bodies and globals must have been written.
bool rebuild_next(encoder *e);

/// What parcel_encode.c does for this, and for classes: writes the value on top, and leaves it; starts an object that was not met before.
void encode_value(encoder *e, int depth);
uint32_t encode_begin(encoder *e, pointer_entry *entry, uint8_t tag);

/// The entry of an object that is met; if it was met before, writes the reference to it and returns NULL.
pointer_entry *encode_again(encoder *e, const void *pointer);

/// Writes everything. Called with the encoder, as light userdata, and the values; it may find the records of an analysis behind them.
int encode_all(lua_State *L);

/// The body of the object on top follows in a record.
void encode_later(encoder *e, uint32_t ordinal);

#endif
