// Calling the host. May raise, except where noted.
#ifndef CLUA_CALLBACK_RAISING_H
#define CLUA_CALLBACK_RAISING_H

#include "callback.h"

/// Pushes a C function that calls `function` for `member`. Needs 3 free stack slots, leaves 1.
void clua_push_function(lua_State *L, clua_function function, int member);

/// Calls the host's `function` for `member` with the values on the stack. Pushes its results and returns their number.
int clua_call_host(lua_State *L, clua_function function, int member);

/// Pushes the values of a reply and returns their number, or raises the error in it. Frees what the reply owns.
int clua_answer(lua_State *L, clua_reply *reply);

/// Frees what a reply owns. Never raises.
void clua_reply_free(clua_reply *reply);

/// A Lua function that calls a host's function. Upvalue: the target, as clua_push_function sets it.
int clua_call_target(lua_State *L);

/// Drops the body of the handle at `index`, and pushes the handle. Returns 1. Never raises. Needs 1 free stack slot.
int clua_answer_sent(lua_State *L, int index);

/// Whether the class has a function with this name. Never raises.
bool clua_class_defines(const clua_class *class, const char *function);

/// Creates the class table of `class`. Pushes it, above the module if the class has a base. Needs 6 free stack slots.
void clua_open_class(lua_State *L, const clua_class *class);

/// Pushes a new metatable for the handles of a kind, with the class table of its class if it has one. Reserves its own slots.
void clua_push_new_metatable(lua_State *L, int kind);

/// Gives the class table on top, of objects of this kind, the methods that the host's script defines. Needs 2 free stack slots.
void clua_open_methods_of_script(lua_State *L, int kind);

/// Gives the module on top the functions that the host's script defines, and keeps what these use. Needs 5 free stack slots.
void clua_open_script(lua_State *L);

/// Pushes the class table of the operation whose handle is at `index`. Asks the host if this state does not know the class. Needs 8 slots.
void clua_push_class_of(lua_State *L, int index);

/// Packs the function at `first` and its arguments, up to `last`, into a body of the handle on top. `number` is the body's number, or 0 for
/// a single body.
void clua_set_body(lua_State *L, int first, int last, int number);

/// Pushes the completion block of the handle at `handle`, or nil, and returns its type. Removes the block from the handle unless `is_kept`.
/// Never raises. Needs 3 free stack slots, leaves 1.
int clua_push_completion(lua_State *L, int handle, bool is_kept);

/// Stores the value at stack index `index` as the completion block in the handle at `handle`; 0 for none. Needs 3 free stack slots.
void clua_set_completion(lua_State *L, int handle, int index);

/// Pushes the parts of a stream of the host that the formats from stack index `first` on ask for, as `file:read` does, and returns their number. The
/// object that keeps the stream alive is at stack index 1. Reserves its own stack slots.
int clua_read(lua_State *L, void *stream, int first);

/// Pushes a function that reads so with each call. It keeps the object at stack index 1 alive. Reserves its own stack slots.
void clua_push_lines(lua_State *L, void *stream, int first);

#endif
