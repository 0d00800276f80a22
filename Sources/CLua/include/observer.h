// Functions of scripts that observe host objects.
#ifndef CLUA_OBSERVER_H
#define CLUA_OBSERVER_H

#include <lua5.4/lua.h>

#include "object.h"
#include "parcel.h"
#include "run.h"

/// A change that an observer is told.
typedef struct clua_change {
    clua_reference object;       // unowned, as the next
    clua_reference observation;
    const clua_item *fields;     // the table that the function gets, flat
    const clua_parcel *old_value;  // more fields of it, `old` and `new`; NULL for none
    const clua_parcel *new_value;
} clua_change;

/// Calls the function that the handle of the object keeps for the observation, with the handle and a table; does nothing where there
/// is none.
int clua_run_observer(lua_State *L, const clua_change *change, clua_failure *failure);

/// How many observations of `object` there are in this state; the first `most` of them in `observations`, unowned. Never raises.
int clua_observations(lua_State *L, const void *object, void **observations, int most);

/// Lets go of that function. Never raises.
void clua_remove_observer(lua_State *L, const void *object, const void *observation);

#endif
