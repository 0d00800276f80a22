// The way from a root of the values to one that cannot be sent, for the error that names it. It is kept only
// when values are traversed a second time, after the first traversal has failed.
#ifndef CLUA_PARCEL_TRAIL_H
#define CLUA_PARCEL_TRAIL_H

#include <lua5.4/lua.h>
#include <stdint.h>

typedef enum trail_kind {
    TRAIL_MAIN,       // the body itself
    TRAIL_ARGUMENT,   // number
    TRAIL_RESULT,     // number
    TRAIL_VALUE,      // a stored value
    TRAIL_UPVALUE,    // text, of the function `label`
    TRAIL_CLASS,      // text
    TRAIL_GLOBAL,     // text, of the function `label`
    TRAIL_FIELD,      // text: a string key; number: its length
    TRAIL_ELEMENT,    // number: an integer key
    TRAIL_OTHER,      // text: the type of another key
    TRAIL_KEY,        // the key itself
    TRAIL_METATABLE,
    TRAIL_REBUILD     // number: what __transfer returned
} trail_kind;

typedef struct trail_step {
    const struct trail_step *parent;
    trail_kind kind;
    lua_Integer number;
    const char *text;   // alive as long as the values are
    const char *label;
    uint32_t record;    // see parcel_survey.h; 0 for none
} trail_step;

/// Pushes how the last value on the trail is named. May raise. Needs 8 free stack slots.
void trail_push_name(lua_State *L, const trail_step *last);

/// Pushes "cannot send …" for the value at `index`, the last on the trail. May raise. Needs 8 free stack slots.
void trail_push_message(lua_State *L, const trail_step *last, int index);

#endif
