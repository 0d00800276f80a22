// Values that travel by name, because every state can get them with `require`. May raise, except where noted.
#ifndef CLUA_MODULES_RAISING_H
#define CLUA_MODULES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Records the modules of a fresh state and their fields. Needs 12 free stack slots.
void clua_modules_open(lua_State *L);

/// Marks `package.loaded` as changed. Never raises.
void clua_modules_changed(lua_State *L);

/// Indexes the modules that were loaded since. Needs 16 slots.
void clua_modules_refresh(lua_State *L);

/// Returns false if clua_module_name would surely return false for the value at `index`. Never raises. Needs 2 free stack slots.
bool clua_may_travel_by_name(lua_State *L, int index);

/// If the value at `index` is a module or a field of one, pushes the module's name, then the field's name or nil, and returns true. Needs 4
/// slots.
bool clua_module_name(lua_State *L, int index);

/// Indexes the value at stack index `value` as the field of `module` with the name at `key`. Needs 5 slots.
void clua_modules_adopt(lua_State *L, const char *module, int key, int value);

/// Pushes the Lua function that has loaded the module with the name at `name`, or nil. `name` is absolute. Needs 3 slots.
void clua_push_chunk(lua_State *L, int name);

/// Pushes the module with the name at `name`, or nil if it is not loaded. `name` is absolute. Needs 3 slots.
void clua_push_loaded(lua_State *L, int name);

/// Pushes the module with the name at `name`, or its field with the key at `key` unless that is 0. Needs 6 slots.
void clua_push_module(lua_State *L, int name, int key);

/// Pushes the file where `require` finds the module with the name at `name`, in Lua or in C. Returns false and pushes nothing if there is none.
/// Needs 6 slots.
bool clua_push_module_file(lua_State *L, int name);

#endif
