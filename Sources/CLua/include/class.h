// Classes of operations that scripts define, as the host sees them.
#ifndef CLUA_CLASS_H
#define CLUA_CLASS_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "object.h"
#include "run.h"

/// Which class the value at `index` is: the object behind a script's class, the name of one of the host's, or neither. Never raises.
typedef struct clua_class_identity {
    void *object;
    const char *built_in;
} clua_class_identity;

clua_class_identity clua_identify_class(lua_State *L, int index);

/// Whether the class of the operation at stack index `operation`, a script's, is the class at `class` or inherits from it.
int clua_is_kind_of(lua_State *L, int operation, int class, bool *is_kind, clua_failure *failure);

/// Whether the class of the operation at stack index `operation` has something at the key at `key`. Never raises.
bool clua_class_has(lua_State *L, int operation, int key);

/// Calls the method `cancel` of the script's class of `object`; `has` is false when there is none.
int clua_call_cancel(lua_State *L, void *object, int kind, bool *has, clua_failure *failure);

#endif
