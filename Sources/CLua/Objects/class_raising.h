// Operation classes that scripts define. May raise, except where noted.
//
// Each state that knows a class has exactly one table for it. The metatable names the host object behind the class. The state that created
// the class owns it: its table is the script's own. In every other state the table has the contents that arrived with the running body, or the
// latest that the state has received.
#ifndef CLUA_CLASS_RAISING_H
#define CLUA_CLASS_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "class.h"
#include "object.h"

/// Marks the class table on top as a built-in class with this name. Needs 2 free stack slots.
void clua_mark_built_in_class(lua_State *L, const char *name);

/// Creates the script class behind `object`, owned by this state, as a subclass of the class table at `parent`. Leaves the new table on
/// top. Needs 8 free stack slots.
void clua_make_class(lua_State *L, void *object, int kind, const char *name, int parent);

/// The object handle of the script class at `index`, or NULL for any other value. Never raises. Needs 2 free stack slots.
clua_handle *clua_class_handle(lua_State *L, int index);

/// Pushes the superclass of the class at `index`. Returns false and pushes nothing for other values. Never raises. Needs 2 slots.
bool clua_push_parent(lua_State *L, int index);

/// Pushes the table of the class `object`. The table is empty if the class's contents have not reached this state. Needs 8 slots.
void clua_push_class(lua_State *L, void *object, int kind);

/// Pushes the table of the class `object`, or nil if this state does not know the class. Never raises. Needs 2 free stack slots.
void clua_push_known_class(lua_State *L, const void *object);

/// Makes the class table on top the table of `object` in this state, unless the state already has one. Needs 3 free stack slots.
void clua_adopt_class(lua_State *L, const void *object);

/// Replaces the key on top by its value in the class at `index`, or in the nearest script-defined superclass. Never raises. Needs 3 free
/// stack slots.
void clua_find_in_class(lua_State *L, int index);

/// As clua_find_in_class for a name. Pushes the value. Needs 5 free stack slots.
void clua_push_class_field(lua_State *L, int index, const char *name);

/// Pushes a new table with the class's own contents, then its name, then its superclass. Returns the version number of the contents. Needs
/// 8 free stack slots.
lua_Integer clua_push_class_contents(lua_State *L, int index);

/// Pops contents, name and superclass, and gives them to the class at `index`. Only pops them if this state owns the class, or if the class has
/// this version or a newer one and `is_forced` is false. Needs 8 free stack slots.
void clua_set_class_contents(lua_State *L, int index, lua_Integer version, bool is_forced);

#endif
