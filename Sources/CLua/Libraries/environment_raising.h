// Global tables. May raise.
//
// A state has its real globals; an operation runs with an environment, a table of its own. The environment reads through to a base: the
// real globals, or in a worker's state what a fresh state has of them. Where the body may look at the table itself, it is filled.
#ifndef CLUA_ENVIRONMENT_RAISING_H
#define CLUA_ENVIRONMENT_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// Remembers the globals of a fresh state. Needs 6 free stack slots.
void clua_environment_open(lua_State *L);

/// Pushes the state's own global table, whatever is running. Never raises. Needs 1 slot.
void clua_push_real_globals(lua_State *L);

/// Pushes the global table in force. Never raises. Needs 1 slot.
void clua_push_current_globals(lua_State *L);

/// Puts the table on top in force, what `load`, `loadfile` and `dofile` use; pops it. Never raises.
void clua_set_current_globals(lua_State *L);

/// Whether those are the state's own: no body is running, or one that was made here. Never raises.
static inline bool clua_are_globals_real(lua_State *L) {
    const clua_state *state = clua_state_of(L);
    return state->current_globals == state->real_globals;
}

/// Pushes a new environment for a body, in which `_G` is itself. Needs 5 slots.
void clua_push_environment(lua_State *L);

/// Pushes a new environment for what came along to a state that goes on: names that came along are found there, all others are read
/// and assigned in the table in force. Needs 5 slots.
void clua_push_overlay(lua_State *L);

/// With an environment made here and a name on top: where it has no value of its own the global is nil, whatever lies behind.
/// Pops the name. Needs 8 slots.
void clua_hide_global(lua_State *L);

/// Whether the table at `index` is a global table or an environment. Never raises. Needs 3 slots.
bool clua_is_environment(lua_State *L, int index);

/// Makes the environment at `index` a table like that of a script: with all globals in it, and no metatable but what a prelude has given to
/// the globals. Does nothing to other tables. May raise.
void clua_fill_environment(lua_State *L, int index);

/// The same with the global table in force, for who may be about to look at it.
void clua_fill_current_environment(lua_State *L);

/// With a name on top of the stack: replaces it by the value of that global in the environment at `index`, and returns whether it
/// is another one than a fresh state has. A metatable that the script gave to the real globals is asked, too. Needs 7 slots.
bool clua_global_differs(lua_State *L, int index);

/// With the real globals, a name and a value on top: assigns the global, and counts it as one that a fresh state has. Pops all.
/// Needs 4 slots.
void clua_adopt_global(lua_State *L);

/// For every key of the table at `keys` for which the one at `now` has something else than the one at `before`: sets it in `to`. Stack
/// indices. Needs 4 slots.
void clua_copy_changes(lua_State *L, int keys, int now, int before, int to);

/// Pushes a copy of the table at `index`. Needs 5 slots.
void clua_push_copy(lua_State *L, int index);

/// Has the real globals be those of a fresh state. Pushes a copy of what they were. Needs 8 slots.
void clua_reset_globals(lua_State *L);

/// With such a copy on top: gives the real globals back what they do not have. Pops it. Needs 6 slots.
void clua_merge_globals(lua_State *L);

/// Pushes a copy of the table of the real globals. Needs 6 slots.
void clua_copy_globals(lua_State *L);

/// With such a copy on top: what has changed since it was made counts as what a fresh state has. Pops it. Needs 8 slots.
void clua_adopt_globals(lua_State *L);

#endif
