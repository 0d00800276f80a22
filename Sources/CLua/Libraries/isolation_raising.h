// Undoes the changes of a body to the tables of the libraries when the body ends. May raise.
#ifndef CLUA_ISOLATION_RAISING_H
#define CLUA_ISOLATION_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"
#include "stop.h"

/// Makes the libraries and the metatables of the basic types what they were when a body first ran here, or when something adopted a change.
/// Returns 0. Reserves its own slots.
int clua_restore_libraries(lua_State *L);

/// Whether something has changed the libraries. Reserves its own slots.
bool clua_are_libraries_changed(lua_State *L);

/// Stack: the table of a module at `table`, a key, a value. Assigns the value until clua_undo_changes, and pops key and value. Needs 6 slots.
void clua_change_field(lua_State *L, int table);

/// Whether clua_change_field has assigned a field with a name in the set at `reads`: `string.format` for a field of a module or library, or
/// `string.*` for all of them. Reserves its own slots.
bool clua_has_changed_field(lua_State *L, int reads);

/// Gives the fields that clua_change_field has assigned their former values. Reserves its own slots.
void clua_undo_changes(lua_State *L);

/// Wraps `math.randomseed`, so that a body's seed ends with the body.
void clua_open_random(lua_State *L);

/// Gives `math.random` the state that it had before the body seeded it. Needs 3 slots.
void clua_restore_random(lua_State *L);

/// Makes the state's own global with the name at `name` one that bodies find. `name` is a stack index. Needs 8 slots.
void clua_record_global(lua_State *L, int name);

/// Makes a module that was loaded one that bodies find. `name` is a stack index. Needs 8 slots.
void clua_adopt_module(lua_State *L, int name);

/// Whether bodies find the loaded module with the name at `name`, not only the one that runs now. Needs 8 slots.
bool clua_is_module_kept(lua_State *L, int name);

/// Makes the present content of the libraries the one that bodies find. Never raises.
static inline void clua_adopt_libraries(lua_State *L) { clua_state_of(L)->libraries_are_recorded = false; }

/// Whether a body waits in this worker's state for what runs now.
static inline bool clua_has_waiting_body(const clua_state *state) {
    const clua_suspended_body *outer = state->separates_globals ? state->stop.suspended : NULL;
    while (outer != NULL && outer->body == NULL) outer = outer->outer;
    return outer != NULL;
}

/// Before a body runs in a worker's state: restores the libraries if something may have changed them.
static inline void clua_begin_isolation(lua_State *L) {
    clua_state *state = clua_state_of(L);
    bool must_look = !state->libraries_are_recorded || state->libraries_may_differ || state->checks_libraries_always;
    if (!must_look || !state->separates_globals || clua_has_waiting_body(state)) return;
    clua_undo_changes(L);
    clua_restore_libraries(L);
}

/// Before a callback, the function at stack index `function`: if a body of another operation waits in this state, the callback finds the libraries
/// as a body does. Reserves its own slots.
void clua_begin_callback(lua_State *L, int function);

/// Makes the libraries again what they were before the callbacks since `set_aside_before`. Returns 0. Reserves its own slots.
int clua_put_libraries_back(lua_State *L);

/// After a callback, which may have run code of any body.
static inline void clua_end_callback(lua_State *L) {
    clua_state *state = clua_state_of(L);
    state->libraries_may_differ |= state->has_library_code;
}

#endif
