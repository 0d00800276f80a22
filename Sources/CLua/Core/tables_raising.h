// Tables that several folders make. May raise.
#ifndef CLUA_TABLES_RAISING_H
#define CLUA_TABLES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Replaces the values on top by an array of them. Needs 1 free stack slot.
void clua_pack(lua_State *L, int count);

/// Pushes a new table with weak keys ("k") or weak values ("v"). Needs 3 free stack slots.
void clua_push_weak(lua_State *L, const char *mode);

/// Pushes the kept table, which is made with such keys or values on first use. Needs 3 free stack slots.
void clua_push_kept_weak(lua_State *L, int kept, const char *mode);

/// The one option that the table at stack index 2 may have; `usual` if it is absent. Raises for another option or a value that is no boolean. Leaves 2
/// values on the stack if there is a table.
bool clua_boolean_option(lua_State *L, const char *name, bool usual);

/// Registers the table on top under the name of a module, by which its functions travel. Needs 2 free stack slots.
void clua_register_module(lua_State *L, const char *name);

#endif
