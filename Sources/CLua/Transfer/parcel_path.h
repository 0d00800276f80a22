// The way from a root of the values to one that cannot be sent, for the error that names it. It is kept only
// when values are traversed a second time, after the first traversal has failed.
#ifndef CLUA_PARCEL_PATH_H
#define CLUA_PARCEL_PATH_H

#include <lua5.4/lua.h>
#include <stdint.h>

typedef enum path_kind {
    PATH_MAIN,       // the body itself
    PATH_ARGUMENT,   // number
    PATH_RESULT,     // number
    PATH_VALUE,      // a stored value
    PATH_UPVALUE,    // text, of the function `label`
    PATH_CLASS,      // text
    PATH_GLOBAL,     // text, of the function `label`
    PATH_FIELD,      // text: a string key; number: its length
    PATH_ELEMENT,    // number: an integer key
    PATH_OTHER,      // text: the type of another key
    PATH_KEY,        // the key itself
    PATH_METATABLE,
    PATH_REBUILD     // number: what __transfer returned
} path_kind;

typedef struct path_step {
    const struct path_step *parent;
    path_kind kind;
    lua_Integer number;
    const char *text;   // alive as long as the values are
    const char *label;
    uint32_t record;    // see parcel_analysis.h; 0 for none
} path_step;

/// Pushes how the last value on the path is named. May raise. Needs 8 free stack slots.
void path_push_name(lua_State *L, const path_step *last);

/// Pushes "cannot send …" for the value at `index`, the last on the path. May raise. Needs 8 free stack slots.
void path_push_message(lua_State *L, const path_step *last, int index);

#endif
