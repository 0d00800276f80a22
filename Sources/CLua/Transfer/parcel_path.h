// The path from a root to a value that cannot be sent, for the error that names the value. Paths are recorded only when values are encoded
// a second time, after the first attempt has failed.
#ifndef CLUA_PARCEL_PATH_H
#define CLUA_PARCEL_PATH_H

#include <lua5.4/lua.h>
#include <stdint.h>

typedef enum path_kind {
    PATH_MAIN,      // the body itself
    PATH_ARGUMENT,  // number
    PATH_RESULT,    // number
    PATH_VALUE,     // a stored value
    PATH_UPVALUE,   // text: its name; of the function `label`
    PATH_CLASS,     // text: its name
    PATH_GLOBAL,    // text: its name; read by the function `label`
    PATH_MODULE,    // text: its name; a change of it follows
    PATH_FIELD,     // text: a string key; number: its length
    PATH_ELEMENT,   // number: an integer key
    PATH_OTHER,     // text: the type of another key
    PATH_KEY,       // the key itself
    PATH_METATABLE,
    PATH_REBUILD    // number: index among the values that __transfer returned
} path_kind;

typedef struct path_step {
    const struct path_step *parent;
    path_kind kind;
    lua_Integer number;
    const char *text;   // valid as long as the values are alive
    const char *label;
    uint32_t record;    // see parcel_analysis.h; 0 for none
} path_step;

/// Pushes the name of the path that ends with `last`. May raise. Needs 8 free stack slots.
void path_push_name(lua_State *L, const path_step *last);

/// Pushes "cannot send …" for the value at `index`, at the end of the path. May raise. Needs 8 free stack slots.
void path_push_message(lua_State *L, const path_step *last, int index);

#endif
