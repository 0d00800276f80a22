#define _GNU_SOURCE
#include <lua5.4/lualib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/modules_raising.h"
#include "key.h"

typedef struct search {
    const char *name;
    char *file;
} search;

static int find_file(lua_State *L) {
    search *search = lua_touserdata(L, 1);
    lua_pushstring(L, search->name);
    if (!clua_push_module_file(L, lua_gettop(L))) return 0;
    search->file = strdup(lua_tostring(L, -1));
    if (search->file == NULL) clua_no_memory(L);
    return 0;
}

int clua_module_file(lua_State *L, const char *name, char **file, clua_failure *failure) {
    search search = {name, NULL};
    int status = clua_protect(L, find_file, &search, 0, failure);
    *file = search.file;
    return status;
}

static int find_path(lua_State *L) {
    char **path = lua_touserdata(L, 1);
    lua_getglobal(L, LUA_LOADLIBNAME);
    if (!lua_istable(L, -1)) return 0;
    lua_pushliteral(L, "path");
    lua_rawget(L, -2);
    if (lua_type(L, -1) != LUA_TSTRING) return 0;
    *path = strdup(lua_tostring(L, -1));
    if (*path == NULL) clua_no_memory(L);
    return 0;
}

int clua_module_path(lua_State *L, char **path, clua_failure *failure) {
    *path = NULL;
    return clua_protect(L, find_path, path, 0, failure);
}
