// Closures that bodies run as, one after the other.
//
// A function that defines no others and captures nothing but plain values never has itself, nor has what it calls, unless that asks the
// `debug` library. So when a body that is such a function has returned, nobody has its closure, and the state's next body of the same
// code can run as that, with its own upvalues. Nor does the closure keep what the body has made: it assigns no upvalue.
//
// Whoever takes the registry apart, or is a C module that asks lua_getinfo for the function that runs, can get hold of one all the same, and
// a C module that assigns one's upvalues by lua_setupvalue is not noticed; the `debug` library's functions that do are.
#ifndef CLUA_CACHED_CLOSURE_RAISING_H
#define CLUA_CACHED_CLOSURE_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "parcel.h"
#include "state.h"

/// Pushes the only value of the parcel, if it is such a function with few upvalues: as a closure that is there, or as a new one. False
/// where it is something else; then nothing is pushed.
///
/// `spare`, if it is not NULL then, has to be told what becomes of the closure, also when this raises. Needs 5 free stack slots.
bool clua_push_cached_closure(lua_State *L, const clua_parcel *parcel, clua_cached_closure **cached);

/// The body has returned: the next one may have the closure. False: somebody may have seen it; it has to be dropped. Never raises.
bool clua_cached_closure_has_returned(lua_State *L, clua_cached_closure *cached);

/// The closure is not used again. Never raises. Needs 1 free stack slot.
void clua_cached_closure_drop(lua_State *L, clua_cached_closure *cached);

/// Gives back what belonged to a state that has been closed. Never raises.
void clua_cached_closures_close(clua_state *state);

#endif
