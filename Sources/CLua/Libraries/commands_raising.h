// Commands of the shell. May raise.
#ifndef CLUA_COMMANDS_RAISING_H
#define CLUA_COMMANDS_RAISING_H

#include <lua5.4/lua.h>

/// `os.execute`. If the body that runs it is stopped, the command gets SIGTERM, and SIGKILL two seconds later.
int clua_execute_command(lua_State *L);

/// `io.popen`, for `io.open`'s bookkeeping. The same holds for its command, until the file is closed.
int clua_open_command(lua_State *L);

#endif
