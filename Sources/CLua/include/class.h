// Operation classes that scripts define, as the host sees them.
#ifndef CLUA_CLASS_H
#define CLUA_CLASS_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Identifies the class at `index`: the object behind a script class, the name of a built-in one, or neither. Never raises.
typedef struct clua_class_identity {
    void *object;
    const char *built_in;
} clua_class_identity;

clua_class_identity clua_identify_class(lua_State *L, int index);

/// Whether the class of the operation at `operation` has a field with the key at `key`; both are stack indices. Never raises.
bool clua_class_has(lua_State *L, int operation, int key);

#endif
