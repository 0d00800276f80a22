// Commands of the shell. May raise.
#ifndef CLUA_COMMANDS_RAISING_H
#define CLUA_COMMANDS_RAISING_H

#include <lua5.4/lua.h>

/// `os.execute`. If the body that runs it is stopped, the command gets SIGTERM, and SIGKILL two seconds later.
int clua_execute_command(lua_State *L);

/// `io.popen`; files.c records its file. Until the file is closed, a stop of the body ends the command in the same way. A command that the
/// script writes to is only killed, when the stopped body has ended.
int clua_open_command(lua_State *L);

#endif
