// The standard functions that our states have in another form.
#ifndef CLUA_LIBRARIES_RAISING_H
#define CLUA_LIBRARIES_RAISING_H

#include <lua5.4/lua.h>

/// Replaces `print`, `io.write` and the `write` of files by ones that write in one piece, and `require` by one that loads against the
/// state's own globals; has the functions of `debug` that look at closures or assign their upvalues say so to the spare ones. May raise. Needs 4 free stack slots.
void clua_open_libraries(lua_State *L);

/// Has `io.popen` flush the state's own files, not those that other threads use. May raise. Needs 5 free stack slots.
void clua_open_files(lua_State *L);

/// `require`; upvalue: Lua's. A module is loaded against the state's own globals, whichever operation asks for it first.
int clua_require_module(lua_State *L);

/// Sends warnings to stderr, off until "@on", as the `lua` command does. Never raises.
void clua_open_warnings(lua_State *L);

#endif
