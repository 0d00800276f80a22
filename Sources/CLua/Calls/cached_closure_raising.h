// A cache of closures, in which one body runs after another.
//
// A function that defines no functions and captures only plain values can hand its own closure to nobody, and neither can the functions it
// calls, unless they use the `debug` library. So when such a body returns, nobody refers to its closure. The state's next body with the
// same code runs in that closure, with its own upvalues. The closure keeps nothing that the body made, because it assigns no upvalue.
//
// There are two gaps. Code that takes the registry apart, or a C module that asks lua_getinfo for the running function, can still get such
// a closure. And a C module that assigns upvalues through lua_setupvalue goes unnoticed; the functions of the `debug` library do not.
#ifndef CLUA_CACHED_CLOSURE_RAISING_H
#define CLUA_CACHED_CLOSURE_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "parcel.h"
#include "state.h"

/// Pushes the parcel's only value, if it is such a function with few upvalues, as a cached or a new closure. Returns false and pushes
/// nothing for any other parcel.
///
/// If `*cached` is not NULL afterwards, the caller must report the closure's fate by one of the next two functions, even if this one
/// raises. Needs 5 free stack slots.
bool clua_push_cached_closure(lua_State *L, const clua_parcel *parcel, clua_cached_closure **cached);

/// Called after the body has returned: the next body may use the closure. Returns false if a script may have seen the closure; the caller
/// must then drop it. Never raises.
bool clua_cached_closure_has_returned(lua_State *L, clua_cached_closure *cached);

/// Removes the closure from the cache. Never raises. Needs 1 free stack slot.
void clua_cached_closure_drop(lua_State *L, clua_cached_closure *cached);

/// Frees what belonged to a closed state. Never raises.
void clua_cached_closures_close(clua_state *state);

#endif
