#include "Core/traceback_raising.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

bool clua_is_own_chunk(const char *source) { return strcmp(source, CLUA_SCRIPTED_CHUNK) == 0; }

void clua_push_where(lua_State *L) {
    lua_Debug caller;
    int level = 1;
    if (lua_getstack(L, level, &caller) && lua_getinfo(L, "S", &caller) && clua_is_own_chunk(caller.source)) {
        while (lua_getstack(L, level + 1, &caller) && lua_getinfo(L, "S", &caller)
               && (clua_is_own_chunk(caller.source) || *caller.what == 'C'))
            level++;
        level++;
    }
    luaL_where(L, level);
}

void clua_push_traceback(lua_State *L, lua_State *of, int level) {
    static const char own[] = "\n\t[opscript]:";
    luaL_traceback(L, of, NULL, level);
    const char *text = lua_tostring(L, -1), *line = strstr(text, own);
    if (line == NULL) return;
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (; line != NULL; line = strstr(text, own)) {
        luaL_addlstring(&buffer, text, (size_t)(line - text));
        text = line + 1;
        while (*text != '\n' && *text != '\0') text++;
    }
    luaL_addstring(&buffer, text);
    luaL_pushresult(&buffer);
    lua_remove(L, -2);
}
