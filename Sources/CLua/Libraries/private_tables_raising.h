// Metatables and registries that a module keeps in local variables. They travel by name as the module's fields do: the name is a path through the upvalues of its
// functions. All functions may raise.
//
// path := '^' ('.' name of a field | '^' number of an upvalue | '@', the metatable)*
#ifndef CLUA_PRIVATE_TABLES_RAISING_H
#define CLUA_PRIVATE_TABLES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Whether the name of a module's field is a path.
static inline bool clua_is_path(const char *key) { return key[0] == '^'; }

/// Whether the table at `index` is a registry of objects: it has weak keys. Needs 2 slots.
bool clua_has_weak_keys(lua_State *L, int index);

/// Finds the private tables of the module on top, which has just been loaded with the name at `name`. Later, scripts may have stored tables of
/// their own there. Needs 6 slots.
void clua_find_private_tables(lua_State *L, int name);

/// Pushes the table that the path leads to from the module on top. Returns false and pushes nothing if there is none. Needs 4 slots.
bool clua_push_private_table(lua_State *L, const char *path);

#endif
