#include "Transfer/parcel_places.h"

#include "Transfer/array_part_raising.h"

bool encode_nils(encoder *e, int table, int index, uint32_t *count, lua_Integer *places) {
    lua_Integer key = lua_isinteger(e->L, index) ? lua_tointeger(e->L, index) : 0;
    if (*places == 0 && key > (lua_Integer)*count) *places = clua_array_places(e->L, table, *count);
    bool has_place = key > (lua_Integer)*count && key <= *places;
    lua_Integer next = has_place ? key : *places + 1;
    for (; (lua_Integer)*count + 1 < next; ++*count) writer_byte(&e->writer, CLUA_TAG_NIL);
    return has_place;
}

void encode_room(encoder *e) {
    lua_State *L = e->L;
    int table = lua_gettop(L);
    lua_Integer places = clua_array_places(L, table, 0);
    if (places == 0) places = (lua_Integer)lua_rawlen(L, table);
    lua_Integer in_array = places > 0 ? places : 0;
    uint64_t pairs = 0;
    lua_pushnil(L);
    while (places != 0 && lua_next(L, table)) {
        lua_pop(L, 1);
        pairs += !lua_isinteger(L, -1) || (lua_Unsigned)lua_tointeger(L, -1) - 1u >= (lua_Unsigned)in_array;
    }
    lua_settop(L, table);
    writer_varint(&e->writer, (uint64_t)in_array);
    writer_varint(&e->writer, pairs);
}
