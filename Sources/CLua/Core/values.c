#include "values.h"

#include <stdlib.h>
#include <string.h>

char *clua_copy_bytes(const char *bytes, size_t count) {
    char *copy = malloc(count + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, bytes, count);
    copy[count] = '\0';
    return copy;
}

lua_Integer clua_packed_length(lua_State *L, int index) {
    // The traversal supplies the key, so no string has to be created.
    lua_Integer length = (lua_Integer)lua_rawlen(L, index);
    if (!lua_checkstack(L, 2)) return length;
    lua_pushnil(L);
    while (lua_next(L, index)) {
        size_t count;
        const char *key = clua_string(L, -2, &count);
        if (key != NULL && count == 1 && key[0] == 'n' && lua_isinteger(L, -1)) {
            lua_Integer given = lua_tointeger(L, -1);
            lua_pop(L, 2);
            return given > 0 ? given : 0;
        }
        lua_pop(L, 1);
    }
    return length;
}
