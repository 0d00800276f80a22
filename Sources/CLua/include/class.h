// Classes of operations that scripts define, as the host sees them.
#ifndef CLUA_CLASS_H
#define CLUA_CLASS_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Which class the value at `index` is: the object behind a script's class, the name of one of the host's, or neither. Never raises.
typedef struct clua_class_identity {
    void *object;
    const char *built_in;
} clua_class_identity;

clua_class_identity clua_identify_class(lua_State *L, int index);

/// Whether the class of the operation at stack index `operation` has something at the key at `key`. Never raises.
bool clua_class_has(lua_State *L, int operation, int key);

#endif
