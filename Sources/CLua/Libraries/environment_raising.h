// Global tables. May raise, except where noted.
//
// A state has its real globals. An operation runs with an environment, a table of its own that reads through to a base: the real globals
// or, in a worker's state, a fresh state's globals. The environment is filled if the body may inspect the table itself.
#ifndef CLUA_ENVIRONMENT_RAISING_H
#define CLUA_ENVIRONMENT_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Records the globals of a fresh state. Needs 6 free stack slots.
void clua_environment_open(lua_State *L);

/// Pushes the state's own global table. Never raises. Needs 1 slot.
void clua_push_real_globals(lua_State *L);

/// Pushes the current global table. Never raises. Needs 1 slot.
void clua_push_current_globals(lua_State *L);

/// Makes the table on top the current one, which `load`, `loadfile` and `dofile` use, and pops it. Never raises.
void clua_set_current_globals(lua_State *L);

/// Whether the current globals are the state's own: no body is running, or only one created in this state. Never raises.
static inline bool clua_are_globals_real(lua_State *L) {
    const clua_state *state = clua_state_of(L);
    return state->current_globals == state->real_globals;
}

/// Pushes a new environment for a body. Its `_G` is the environment itself. Needs 5 slots.
void clua_push_environment(lua_State *L);

/// Pushes a new environment for values that arrive in a running state. Globals that came with them are found there. Reads and assignments
/// of all other globals go to the current table. Needs 5 slots.
void clua_push_overlay(lua_State *L);

/// Stack: an environment created here, a name. Hides the global of the base, so that it is nil unless the environment itself has a value.
/// Pops the name. Needs 8 slots.
void clua_hide_global(lua_State *L);

/// Whether the table at `index` is a global table or an environment. Never raises. Needs 3 slots.
bool clua_is_environment(lua_State *L, int index);

/// Makes the environment at `index` a table like a script's: with all globals, and no metatable but that of a prelude. Does nothing to
/// other tables. Reserves its own slots.
void clua_fill_environment(lua_State *L, int index);

/// As clua_fill_environment for the current global table, before a script may inspect it.
void clua_fill_current_environment(lua_State *L);

/// Replaces the name on top by the value of that global in the environment at `index`. Returns whether the value differs from a fresh
/// state's. Also consults a script's metatable of the real globals. Needs 7 slots.
bool clua_global_differs(lua_State *L, int index);

/// Stack: the real globals, a name, a value. Assigns the global, also in the records of what bodies find. Pops all three. Needs 10
/// slots.
void clua_adopt_global(lua_State *L);

/// Assigns to `to` every key of `keys` for which `now` and `before` differ, with the value in `now`. All are stack indices. Needs 4 slots.
void clua_copy_changes(lua_State *L, int keys, int now, int before, int to);

/// Pushes a shallow copy of the table at `index`. Needs 5 slots.
void clua_push_copy(lua_State *L, int index);

/// Returns the number of fields of the table at `table`, or -1 if one of them differs in the table at `other`. Stack indices. Never raises.
/// Needs 4 slots.
lua_Integer clua_count_same_fields(lua_State *L, int table, int other);

/// Pushes a table of those of the current globals that a fresh state does not have, or has with other values. Needs 9 slots.
void clua_push_changed_globals(lua_State *L);

/// Pushes a copy of the table of the real globals. Needs 6 slots.
void clua_copy_globals(lua_State *L);

/// Pops that copy, and adopts all changes since it was made as a fresh state's globals. Needs 8 slots.
void clua_adopt_globals(lua_State *L);

#endif
