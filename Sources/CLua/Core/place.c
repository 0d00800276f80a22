#include "place.h"

#include <string.h>

bool clua_find_place(lua_State *L, clua_place *place) {
    lua_Debug activation;
    for (int level = 0; lua_getstack(L, level, &activation); level++) {
        lua_getinfo(L, "l", &activation);
        if (activation.currentline <= 0) continue;
        lua_getinfo(L, "S", &activation); // formats a text, so only for this level
        place->source = activation.source;
        place->line = activation.currentline;
        memcpy(place->text, activation.short_src, sizeof place->text);
        return true;
    }
    return false;
}
