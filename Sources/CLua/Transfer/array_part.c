#include "Transfer/array_part_raising.h"

#include "Limits/stop_raising.h"

// Keys in the hash part may lead `#` to a border far away. No request stops a search in C, so the search is limited.
enum { BYTES_PER_PLACE = 16, MOST_TRIED = 1 << 16 };

// Stack: a table, a key.
static int find_next(lua_State *L) {
    lua_next(L, 1);
    return 0;
}

// Whether the nil at `place` is in the array part. Only there `lua_next` finds the pair after a nil.
static bool is_in_array_part(lua_State *L, int table, lua_Integer place) {
    lua_pushcfunction(L, find_next);
    lua_pushvalue(L, table);
    lua_pushinteger(L, place);
    int status = lua_pcall(L, 2, 0, 0);
    if (status == LUA_OK) return true;
    if (clua_is_stop(L, status)) clua_raise_stop(L);
    if (status == LUA_ERRMEM) lua_error(L);
    lua_pop(L, 1);
    return false;
}

static bool has_value(lua_State *L, int table, lua_Unsigned place) {
    bool has_value = lua_rawgeti(L, table, (lua_Integer)place) != LUA_TNIL;
    lua_pop(L, 1);
    return has_value;
}

// Whether Lua finds this border if the array part has so many places. If the value after them is not nil, Lua looks in the hash part: it doubles
// an index as long as there is a value, and bisects between the last two indices.
static bool leads_to(lua_State *L, int table, lua_Unsigned places, lua_Unsigned border) {
    if ((places > 0 && !has_value(L, table, places)) || !has_value(L, table, places + 1)) return false;
    lua_Unsigned low, high = places > 0 ? places : 1;
    do {
        low = high;
        high *= 2;
    } while (low <= border && has_value(L, table, high));
    while (high - low > 1) {
        lua_Unsigned middle = low + (high - low) / 2;
        *(has_value(L, table, middle) ? &low : &high) = middle;
    }
    return low == border;
}

lua_Integer clua_array_places(lua_State *L, int table, lua_Integer count) {
    lua_Integer border = (lua_Integer)lua_rawlen(L, table), place = border - 1;
    if (border == count || (count > 0 && leads_to(L, table, (lua_Unsigned)count, (lua_Unsigned)border))) return count;
    while (place > count && has_value(L, table, (lua_Unsigned)place)) place--;
    if (place <= count) return count;
    // `lua_next` also finds a removed key in the hash part, so an array part must also fit into the memory that Lua uses.
    lua_Integer most = (lua_Integer)lua_gc(L, LUA_GCCOUNT) * (1024 / BYTES_PER_PLACE);
    if (border <= most && is_in_array_part(L, table, place)) return border;
    if (leads_to(L, table, 0, (lua_Unsigned)border)) return CLUA_IN_HASH_PART;
    lua_Integer places = count + 1, last = border < most ? border : most;
    if (last > count + MOST_TRIED) last = count + MOST_TRIED;
    while (places <= last && !leads_to(L, table, (lua_Unsigned)places, (lua_Unsigned)border)) places++;
    return places <= last ? places : count;
}
