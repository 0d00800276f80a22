// The entry of the module `opscript` for a Lua interpreter: `luaopen_opscript`, which `require` finds by its name.
#ifndef COPSCRIPTMODULE_H
#define COPSCRIPTMODULE_H

#include <stdbool.h>

struct lua_State;

/// Written in Swift: pushes the module, or a message, and returns the status. `sets_status` says whether failures may change the exit status of
/// the process. Never raises.
int opscript_module_open(struct lua_State *L, bool sets_status);

/// Makes the process end with the status 1 if it would end with 0. Any thread.
void opscript_module_fail_process(void);

#endif
