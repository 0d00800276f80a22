// The place that a script is executing.
#ifndef CLUA_PLACE_H
#define CLUA_PLACE_H

#include <lua5.4/lua.h>
#include <stdbool.h>

typedef struct {
    /// The chunk's name. Identifies the chunk while its functions live.
    const char *source;
    /// The line, counting from 1.
    int line;
    /// The chunk's name as messages show it.
    char text[LUA_IDSIZE];
} clua_place;

/// Finds the line that the innermost Lua function on the stack of `L` is executing. Returns false if there is none. Never raises and
/// allocates nothing.
bool clua_find_place(lua_State *L, clua_place *place);

#endif
