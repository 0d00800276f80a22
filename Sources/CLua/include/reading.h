// Reading from streams of the host.
#ifndef CLUA_READING_H
#define CLUA_READING_H

#include <lua5.4/lua.h>
#include <stddef.h>

#include "parcel.h"
#include "protect.h"

/// The formats of `file:read`, as clua_streaming.take gets them.
typedef enum clua_read_format {
    CLUA_READ_LINE,
    CLUA_READ_LINE_WITH_END,
    CLUA_READ_BYTES,
    CLUA_READ_ALL,
    CLUA_READ_NUMERAL,
} clua_read_format;

/// Outcomes of clua_streaming.take. The host's `await` gets every other number, and the low bits of the count that `take` has set: see
/// CLUA_AWAITED.
enum { CLUA_TAKEN, CLUA_TAKE_END, CLUA_TAKE_ROOM = 3 };

#define CLUA_AWAITED(outcome, count) ((outcome) | (int)(((count)&0x3fffffu) << 8))

/// Makes the function at stack index `function` the callback in the handle of an object, which it creates if necessary. Pushes the handle, or
/// nothing on failure.
int clua_set_callback(lua_State *L, clua_reference reference, int function, clua_failure *failure);

#endif
