// Raising when the ledger of a state has no room.
#ifndef CLUA_LEDGER_RAISING_H
#define CLUA_LEDGER_RAISING_H

#include <lua5.4/lua.h>

/// Raises the error of a ledger without room, with the position of the running function's caller.
int clua_raise_refusal_to_keep(lua_State *L);

#endif
