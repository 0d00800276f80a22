// Calling the host. May raise, except where it says so.
#ifndef CLUA_CALLBACK_RAISING_H
#define CLUA_CALLBACK_RAISING_H

#include "callback.h"

/// Pushes a C function that calls `function` for `member`. Needs 3 free stack slots, leaves 1.
void clua_push_function(lua_State *L, clua_function function, int member);

/// Calls a function of the host for `member` with what is on the stack; leaves its results on top, and returns how many they are.
int clua_call_host(lua_State *L, clua_function function, int member);

/// Makes the metatable and the class table of `class`; leaves the class table on the stack, above the module. Needs 6 free slots.
void clua_open_class(lua_State *L, const clua_class *class);

/// Pushes the table of the class of the operation whose handle is at `index`; asks the host when it is not known. Needs 8 slots.
void clua_push_class_of(lua_State *L, int index);

/// Packs the function at stack index `first` and the arguments after it, up to `last`, into the body of the handle on top: the one with
/// this number of several, or the only one for 0.
void clua_set_body(lua_State *L, int first, int last, int number);

/// Pushes the completion block that the handle at `handle` has, or nil, and takes it out unless it is kept; returns its type. Never raises.
/// Needs 3 free stack slots, leaves 1.
int clua_push_completion(lua_State *L, int handle, bool is_kept);

#endif
