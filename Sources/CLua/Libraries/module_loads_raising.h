// The order in which the modules of a state were loaded. The index of a name is absolute. May raise.
#ifndef CLUA_MODULE_LOADS_RAISING_H
#define CLUA_MODULE_LOADS_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Records that `require` has loaded the module with the name at `name`, inside the load of another module or not. Reserves its own slots.
void clua_modules_loaded(lua_State *L, int name, bool is_outermost);

/// The number of the load of the module with that name: loads are numbered when they end. 0 if `require` has not loaded it. Needs 2 free stack
/// slots.
lua_Integer clua_load_number(lua_State *L, int name);

/// Whether another state should require the module by the name at `name`, not by the one at `other`. A load that ends later may contain the other
/// one and add fields. Names that `require` has not loaded have no order of their own, and must not get one by chance. Needs 2 free stack slots.
bool clua_is_better_name(lua_State *L, int name, int other);

/// Pushes the name of the module that the script was loading when the module with the name at `name` was loaded, too. Returns false, and pushes
/// nothing, if there is none. Needs 4 free stack slots.
bool clua_push_outer_module(lua_State *L, int name);

#endif
