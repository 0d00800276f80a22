#define _GNU_SOURCE
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
