// The modules that an operation has, and those that all operations of a state share. All indices are absolute stack indices. May raise.
#ifndef CLUA_OWN_MODULES_RAISING_H
#define CLUA_OWN_MODULES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Makes the empty tables. Needs 3 free stack slots.
void clua_own_modules_open(lua_State *L);

/// Makes the loaded module with the name at `name`, which reads what is in the set at `reads`, one of all operations. `data` is that of its loader.
/// Needs 7 free stack slots.
void clua_share_module(lua_State *L, int name, int reads, int data);

/// Pushes the data of the loader of the shared module with the name at `name`. Returns false, and pushes nothing, for other modules. Needs 4 free
/// stack slots.
bool clua_push_data(lua_State *L, int name);

/// Pushes the set of what the shared module with the name at `name` reads. Returns false, and pushes nothing, for other modules. Needs 4
/// free stack slots.
bool clua_push_reads(lua_State *L, int name);

/// Whether the operation has a value of its own, other than a fresh state's, of a global or field in the set at `reads`. Needs 5 free stack slots.
bool clua_has_own(lua_State *L, int environment, int reads);

/// Notes that the operation with the environment has the module at `module` under the name at `name`. Needs 5 free stack slots.
void clua_note_module(lua_State *L, int environment, int name, int module);

/// Whether the operation has had a module with that name, or has tried to load it. Notes that it tries. Needs 5 free stack slots.
bool clua_has_had_module(lua_State *L, int environment, int name);

/// The module on top is loaded under the name at `name`. Whether it is the one that the operation has, or would load now. Notes that the operation
/// has it. `*is_new` is whether the operation would load it now. Needs 12 free stack slots.
bool clua_module_fits(lua_State *L, int environment, int name, bool *is_new);

#endif
