// The array part of a table, which decides what `#` returns if values are missing.
#ifndef CLUA_ARRAY_PART_RAISING_H
#define CLUA_ARRAY_PART_RAISING_H

#include <lua5.4/lua.h>

enum { CLUA_IN_HASH_PART = -1 };

/// The number of places that a copy of the table at `table` needs in its array part for the same `#`. The first `count` values need places
/// anyway; if no value between them and the table's border is nil, there are no others. Returns CLUA_IN_HASH_PART if the copy must have no array
/// part. May raise. Needs 4 slots.
lua_Integer clua_array_places(lua_State *L, int table, lua_Integer count);

#endif
