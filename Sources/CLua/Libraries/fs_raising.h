// The library `opscript.fs`. May raise, except where noted.
#ifndef CLUA_FS_RAISING_H
#define CLUA_FS_RAISING_H

#include <lua5.4/lauxlib.h>

/// Gives the module on top the library `fs`, if the state may use files. Needs 5 free stack slots.
void clua_open_fs(lua_State *L);

/// The argument as a path: a text without zero bytes.
const char *fs_check_path(lua_State *L, int argument);

/// The functions of the library that need more than one file of C.
int fs_walk(lua_State *L);
int fs_glob(lua_State *L);
extern const luaL_Reg fs_path_functions[];

#endif
