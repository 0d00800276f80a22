// Classes of operations that scripts define. May raise, except where it says so.
//
// A class is a table in each state that knows it, the same one whenever it comes; its metatable says which object of the host it
// stands for. It belongs to the state that made it: there the table is the script's own, elsewhere its contents are those that
// came with what runs, or the latest.
#ifndef CLUA_CLASS_RAISING_H
#define CLUA_CLASS_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "class.h"
#include "object.h"

/// Marks the class table on top as one that the host has made, of this name. Needs 2 slots.
void clua_mark_built_in_class(lua_State *L, const char *name);

/// Makes the class of the script's that `object` stands for, which this state owns, a subclass of the class table at stack index
/// `parent`. Leaves its table. Needs 8 slots.
void clua_make_class(lua_State *L, void *object, int kind, const char *name, int parent);

/// The handle of the object that the table at `index` stands for, if it is a script's class, else NULL. Never raises. Needs 2 slots.
clua_handle *clua_class_handle(lua_State *L, int index);

/// Pushes the superclass of the class at `index`; nothing, and false, when it is no class. Never raises. Needs 2 slots.
bool clua_push_parent(lua_State *L, int index);

/// Pushes the table of the class `object`, empty when nothing of it has come to this state. Needs 8 slots.
void clua_push_class(lua_State *L, void *object, int kind);

/// Pushes the table of the class `object`, or nil when nothing of it has come to this state. Never raises. Needs 2 slots.
void clua_push_known_class(lua_State *L, const void *object);

/// The class table on top is the one of `object` here, unless there is another. Needs 3 slots.
void clua_adopt_class(lua_State *L, const void *object);

/// Replaces the key on top by what the class at `index`, or the nearest of its superclasses that is a script's, has at it. Never
/// raises. Needs 3 slots.
void clua_find_in_class(lua_State *L, int index);

/// The same for a name. Leaves the value. Needs 5 slots.
void clua_push_class_field(lua_State *L, int index, const char *name);

/// Pushes a new table of what a class contains itself, its name, and its superclass. Returns the number of this version of it.
/// Needs 8 slots.
lua_Integer clua_push_class_contents(lua_State *L, int index);

/// With contents, name and superclass on top: makes them those of the class at `index`, unless it belongs to this state, or has newer
/// ones and `is_forced` is false. Pops them. Needs 8 slots.
void clua_set_class_contents(lua_State *L, int index, lua_Integer version, bool is_forced);

#endif
