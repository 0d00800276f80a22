// Internal to this folder: closures that bodies run as, one after the other.
//
// A function that defines no others and captures nothing but plain values never has itself, nor has what it calls, unless that asks the
// `debug` library. So when a body that is such a function has returned, nobody has its closure, and the state's next body of the same
// code can run as that, with all its upvalues set anew.
#ifndef CLUA_SPARE_RAISING_H
#define CLUA_SPARE_RAISING_H

#include <lua5.4/lua.h>

#include "code.h"
#include "state.h"

/// Whether a closure of this code can be used again if its upvalues are plain. What these hold stays until then, so they are few.
static inline bool clua_may_be_spare(const clua_code *code) { return !code->has_functions && code->upvalue_count <= 8; }

/// Pushes a closure of `code` that nobody else has; all its upvalues have to be set. As clua_code_instantiate, but for that.
///
/// Returns who has to be told, in this state, what becomes of the closure; NULL: it is not used again.
clua_spare *clua_push_spare(lua_State *L, clua_code *code);

/// The body has returned: the next one may have the closure, unless somebody may have seen it. Never raises. Needs 1 free stack slot.
void clua_spare_has_returned(lua_State *L, clua_spare *spare);

/// The closure is not used again. Never raises. Needs 1 free stack slot.
void clua_spare_drop(lua_State *L, clua_spare *spare);

/// Gives back what belonged to a state that has been closed. Never raises.
void clua_spares_close(clua_state *state);

#endif
