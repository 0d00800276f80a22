// The changes that a script has made in modules since `require` returned them, and in libraries since the state was made. May raise, except
// where noted.
//
// A snapshot is a shallow copy of a module's table, or of a small table in a field of a module. It is made when the outermost `require`
// returns, and for a library with the index of modules.c. Code that changes a field later makes the table differ from its snapshot.
#ifndef CLUA_MODULE_CHANGES_RAISING_H
#define CLUA_MODULE_CHANGES_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Prepares a fresh state, after its libraries were listed. Needs 6 free stack slots.
void clua_module_changes_open(lua_State *L);

/// Makes snapshots of the modules that have none. Reserves its own slots.
void clua_take_snapshots(lua_State *L);

/// Before the outermost `require` loads a module: notes which fields differ from the snapshots. Reserves its own slots.
void clua_note_earlier_changes(lua_State *L);

/// Forgets them, after the load. Needs 1 slot.
void clua_forget_earlier_changes(lua_State *L);

/// The module with the name at `name` was loaded. If its loader has returned the table of another module, which has a snapshot already and is no
/// library, the fields that the loader has changed become part of the snapshot. Reserves its own slots.
void clua_renew_snapshot(lua_State *L, int name);

/// Notes that the module being loaded, if there is one, requires the module with the name at `name`. Needs 5 slots.
void clua_note_requirement(lua_State *L, int name);

/// Makes the module with the name at `name` the one being loaded. Replaces what is at `before` by the last one. The second function undoes
/// this. Need 5 slots.
void clua_begin_loading(lua_State *L, int name, int before);
void clua_end_loading(lua_State *L, int before);

/// Pushes the names, as the keys of a table, of the modules that the one with the name at `name` has required while it was loaded; nil if
/// there are none, and false for what a fresh state has. Needs 3 slots.
void clua_push_requirements(lua_State *L, int name);

/// Makes the table at `snapshot` the snapshot of the library at `library`. Stack indices. Needs 3 slots.
void clua_keep_snapshot(lua_State *L, int library, int snapshot);

/// Whether the table in a field of a module has few enough entries for a comparison at each operation. `table` is absolute. Needs 2 slots.
bool clua_is_compared(lua_State *L, int table);

/// Pushes the snapshot of the table at `table`. Returns false and pushes nothing if there is none. Never raises. Needs 3 slots.
bool clua_push_snapshot(lua_State *L, int table);

/// Whether the method that strings have under this name has changed. Needs 6 slots.
bool clua_is_method_changed(lua_State *L, const char *name, size_t count);

/// Calls `found` for each field of the table at `table` that differs in its snapshot at `snapshot`. The stack then has the key and the
/// present value, which may be nil, on top. Needs 6 slots.
void clua_find_changes(lua_State *L, int table, int snapshot, void (*found)(lua_State *L, void *context), void *context);

#endif
