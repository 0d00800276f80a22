// The standard libraries as a fresh state has them. May raise, except where noted.
//
// A state of another program may have other globals and modules, and changed fields of the libraries. These are put aside while the state is
// prepared like a fresh one.
#ifndef CLUA_STOCK_RAISING_H
#define CLUA_STOCK_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

/// Lists the functions of a fresh state, once per process. Returns false if memory runs out. Never raises.
bool clua_stock_open(void);

/// The allocator of luaL_newstate. Call it after clua_stock_open. Never raises.
lua_Alloc clua_stock_allocator(void);

/// Makes the libraries those of a fresh state. Records the changes in the empty table at `changes`. Reserves its own slots.
void clua_hide_changes(lua_State *L, int changes);

/// Undoes clua_hide_changes. Reserves its own slots.
void clua_restore_changes(lua_State *L, int changes);

/// Indexes the functions of a fresh state that this state has replaced, so that they travel by name: scripts may have kept them in variables.
/// Call it after clua_modules_open, while changes are hidden. Reserves its own slots.
void clua_index_stock_functions(lua_State *L);

#endif
