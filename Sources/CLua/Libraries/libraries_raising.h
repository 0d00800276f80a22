// Our versions of standard library functions.
#ifndef CLUA_LIBRARIES_RAISING_H
#define CLUA_LIBRARIES_RAISING_H

#include <lua5.4/lua.h>

/// Replaces `print`, `io.write` and the `write` of files by versions that write in one piece.
/// Also wraps the `debug` functions that inspect closures or assign upvalues, for the cached closures. May raise.
/// Needs 4 free stack slots.
void clua_open_libraries(lua_State *L);

/// Removes the functions that the state's restrictions name. Call it before the contents of a fresh state are recorded. May raise. Needs 6 free
/// stack slots.
void clua_restrict(lua_State *L);

/// Makes `io.popen` flush only the state's own files, and `os.execute` leave the signals of the process alone. May raise. Needs 5 free stack
/// slots.
void clua_open_files(lua_State *L);

/// Sends warnings to stderr. They are off until "@on", as in the `lua` command. Never raises.
void clua_open_warnings(lua_State *L);

#endif
