// Values that travel by name, because every state can get them by `require`. May raise.
#ifndef CLUA_MODULES_RAISING_H
#define CLUA_MODULES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Remembers the modules of a fresh state and their fields. Needs 12 free stack slots.
void clua_modules_open(lua_State *L);

/// Says that `package.loaded` may have changed. Never raises.
void clua_modules_changed(lua_State *L);

/// Takes note of modules loaded since. Needs 16 slots.
void clua_modules_refresh(lua_State *L);

/// Whether clua_module_name has to be asked. Never raises. Needs 2 free stack slots.
bool clua_may_travel_by_name(lua_State *L, int index);

/// If the value at `index` is a module or a field of one: pushes the module's name, and the field's or nil, and returns true.
/// Needs 4 slots.
bool clua_module_name(lua_State *L, int index);

/// Counts the value at stack index `value` as the field with the name at `key` of `module`. Needs 5 slots.
void clua_modules_adopt(lua_State *L, const char *module, int key, int value);

/// Pushes the module with the name at `name`, or its field with the key at `key` when that is not 0. Needs 6 slots.
void clua_push_module(lua_State *L, int name, int key);

#endif
