// Internal to this folder.
#ifndef CLUA_RUN_APART_H
#define CLUA_RUN_APART_H

#include "run.h"

/// As clua_protect, outside of the operation that may be running: its environment is not in force meanwhile, and its frames are in no
/// traceback.
int clua_run_apart(lua_State *L, lua_CFunction function, void *context, clua_failure *failure);

/// The two halves of that, around what is done in between. The first says whether the state's own globals were in force, as they nearly
/// always are; otherwise it pushes those that were, and the second takes them off. Needs LUA_MINSTACK free stack slots.
bool clua_enter_apart(lua_State *L);
void clua_leave_apart(lua_State *L, bool were_real, int status, clua_failure *failure);

/// The same of clua_protect, around lua_pcall: the first pushes what is to be below the function, and returns where the message handler
/// is; the second takes it off, and leaves the results. `failure` is to be empty.
int clua_begin_protected(lua_State *L);
int clua_end_protected(lua_State *L, int handler, int status, clua_failure *failure);

#endif
