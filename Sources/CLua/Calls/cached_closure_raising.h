// A cache of closures, in which one body runs after another.
//
// A function that defines no functions and captures only plain values cannot pass its own closure on, and neither can the functions it
// calls, unless they use the `debug` library. So when such a body returns, nothing refers to its closure. The state's next body with the
// same code runs in that closure, with its own upvalues. The closure keeps nothing that the body made, because it assigns no upvalue.
//
// There are two gaps. Code that takes the registry apart, or a C module that asks lua_getinfo for the running function, can still get such
// a closure. And a C module that assigns upvalues through lua_setupvalue goes unnoticed; the functions of the `debug` library do not.
//
// The cache costs eight closures that each state keeps, and the two gaps. It saves the decoder, the closure and the garbage: L1h takes 0.62
// of the time and 0.63 of the instructions, L1 0.85 and 0.90.
#ifndef CLUA_CACHED_CLOSURE_RAISING_H
#define CLUA_CACHED_CLOSURE_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "parcel.h"
#include "state.h"

/// Pushes the parcel's only value, if it is such a function with few upvalues, as a cached or a new closure. Returns false and pushes
/// nothing for any other parcel.
///
/// If `*cached` is not NULL afterwards, the caller must call clua_leave_cached_closure, even if this function raises. Needs 5 free stack
/// slots.
bool clua_push_cached_closure(lua_State *L, const clua_parcel *parcel, clua_cached_closure **cached);

/// Ends the run of the closure's body. The next body may use the closure if this one `has_returned` and no script can have seen the
/// closure; otherwise the closure is removed. Never raises. Needs 1 free stack slot.
void clua_leave_cached_closure(lua_State *L, clua_cached_closure *cached, bool has_returned);

/// Releases the code in the cache of a closed state. Never raises.
void clua_cached_closures_close(clua_state *state);

#endif
