// The memory that the host keeps for the scripts of one runtime, outside of their states: a number of bytes with a limit.
#ifndef CLUA_LEDGER_H
#define CLUA_LEDGER_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

/// Counted, because what is kept may outlive its runtime. Any thread may call these functions. None raises, and each accepts NULL, which means that
/// nothing is counted.
typedef struct clua_ledger clua_ledger;

/// One reference for the caller. NULL if memory runs out.
clua_ledger *clua_ledger_new(size_t limit);
void clua_ledger_retain(clua_ledger *ledger);
void clua_ledger_release(clua_ledger *ledger);

/// Adds bytes that are kept from now on, also beyond the limit: the caller checks with clua_make_room, before or after.
void clua_ledger_add(clua_ledger *ledger, size_t bytes);
void clua_ledger_subtract(clua_ledger *ledger, size_t bytes);
size_t clua_ledger_bytes(const clua_ledger *ledger);

/// Makes the state's parcels and frozen values count in a ledger, which it retains. Before the first script runs.
void clua_set_ledger(lua_State *L, clua_ledger *ledger);

/// Whether the state's ledger has room for so many more bytes, perhaps after a garbage collection. A state whose collections do not help collects ever
/// more seldom. Runs finalizers. Never raises.
bool clua_make_room(lua_State *L, size_t bytes);

/// Pushes the error of a ledger without room. Returns LUA_ERRRUN, or another status with its message if memory runs out. Needs 3 free stack slots. Never
/// raises.
int clua_refuse_to_keep(lua_State *L);

#endif
