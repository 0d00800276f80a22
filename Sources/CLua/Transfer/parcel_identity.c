#include "Transfer/parcel_identity.h"

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Libraries/private_tables_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_rebuild.h"

// MARK: encoding

// The entry of the table on top, which was written by value.
static pointer_entry *entry_on_top(encoder *e) {
    bool found;
    return encoder_meet(e, lua_topointer(e->L, -1), &found);
}

void identity_note(encoder *e, bool is_metatable) {
    pointer_entry *entry = entry_on_top(e);
    if (entry->number != 0 && (entry->number != TABLE_HAS_NO_IDENTITY || !is_metatable)) return;
    clua_need_stack(e->L, 20);
    lua_Integer number = clua_identity_of(e->L, is_metatable);
    entry->number = number == 0 ? TABLE_HAS_NO_IDENTITY : TABLE_HAS_IDENTITY;
    if (number == 0) return;
    uint32_t ordinal = entry->ordinal;
    uint8_t *tag = e->writer.failed ? NULL : &e->writer.bytes[entry->offset];
    if (tag != NULL && *tag == CLUA_TAG_TABLE) *tag = CLUA_TAG_TABLE_KEPT;
    *(identified *)encoder_append(e, &e->identities, sizeof(identified)) = (identified){ordinal, number};
}

void identity_note_metatable(encoder *e, size_t tag_at) {
    uint8_t tag = e->writer.failed ? CLUA_TAG_NIL : e->writer.bytes[tag_at];
    if (tag != CLUA_TAG_OBJECT_AGAIN && (tag < CLUA_TAG_TABLE || tag > CLUA_TAG_TABLE_LATER)) return;
    pointer_entry *entry = entry_on_top(e);
    if (entry->number < TABLE_IS_METATABLE) {
        identity_note(e, true);
        lua_pushvalue(e->L, -2);
        bool is_registry = clua_has_weak_keys(e->L, -1);
        lua_pop(e->L, 1);
        entry->number = is_registry ? TABLE_IS_METATABLE_OF_REGISTRIES : TABLE_IS_METATABLE;
    }
    if (entry->number != TABLE_IS_METATABLE_OF_REGISTRIES) return;
    lua_pushvalue(e->L, -2);
    identity_note(e, false);
    lua_pop(e->L, 1);
}

void identity_note_registry(encoder *e) {
    bool found;
    encoder_meet(e, lua_topointer(e->L, -1), &found);
    if (found) return;
    lua_pushvalue(e->L, -1);
    lua_Integer anchor = encoder_anchor(e);
    *(lua_Integer *)encoder_append(e, &e->registries, sizeof anchor) = anchor;
}

void identity_write_registry(encoder *e, size_t number) {
    lua_State *L = e->L;
    lua_rawgeti(L, e->anchors, ((lua_Integer *)e->registries.items)[number]);
    int registry = lua_gettop(L), key = registry + 1;
    lua_pushnil(L);
    while (lua_next(L, registry)) {
        bool is_object = lua_istable(L, key) && pointer_map_find(&e->met, lua_topointer(L, key)) != NULL && !clua_may_travel_by_name(L, key)
            && !clua_is_environment(L, key);
        if (is_object) encode_field(e);
        lua_settop(L, key);
    }
    lua_pop(L, 1);
}

void identity_write(encoder *e) {
    uint32_t count = (uint32_t)e->identities.count;
    e->writer.bytes[0] |= CLUA_HAS_IDENTITIES;
    for (uint32_t i = 0; i < count; i++) {
        const identified *item = &((identified *)e->identities.items)[i];
        writer_bytes(&e->writer, &item->ordinal, sizeof item->ordinal);
        writer_bytes(&e->writer, &item->number, sizeof item->number);
    }
    writer_bytes(&e->writer, &count, sizeof count);
    e->identities.count = 0;
}

// MARK: decoding

void identity_read(decoder *d) {
    lua_State *L = d->L;
    size_t size = clua_identities_size(d->reader.next, reader_remaining(&d->reader));
    if (size == 0) reader_malformed(&d->reader);
    d->reader.end -= size;
    const uint8_t *next = d->reader.end, *end = next + size - sizeof(uint32_t);
    if (!d->has_identities) {
        lua_createtable(L, 0, size < 400 ? 2 * (int)(size / CLUA_IDENTITY_BYTES) : 64);
        lua_replace(L, d->identities);
    }
    d->has_identities = true;
    for (; next < end; next += CLUA_IDENTITY_BYTES) {
        uint32_t ordinal;
        lua_Integer number;
        memcpy(&ordinal, next, sizeof ordinal);
        memcpy(&number, next + sizeof ordinal, sizeof number);
        lua_pushinteger(L, number);
        lua_rawseti(L, d->identities, ordinal);
    }
}

bool identity_had(decoder *d, uint32_t ordinal) {
    if (!d->has_identities) return false;
    bool had = lua_rawgeti(d->L, d->identities, ordinal) == LUA_TBOOLEAN;
    lua_pop(d->L, 1);
    return had;
}

bool identity_had_table(decoder *d, int index) {
    if (!d->has_identities) return false;
    lua_pushvalue(d->L, index);
    bool had = lua_rawget(d->L, d->identities) == LUA_TBOOLEAN;
    lua_pop(d->L, 1);
    return had;
}

bool identity_find(decoder *d, uint32_t ordinal) {
    lua_State *L = d->L;
    if (!d->has_identities) return false;
    bool is_class = lua_rawgeti(L, d->identities, ordinal) == LUA_TNUMBER;
    lua_Integer number = lua_tointeger(L, -1);
    lua_pop(L, 1);
    if (!is_class) return false;
    bool had = clua_push_identified(L, number);
    if (had) {
        lua_replace(L, -2);
        lua_pushboolean(L, 1);
        lua_rawseti(L, d->identities, ordinal);
    }
    lua_pushvalue(L, -1);
    if (had)
        lua_pushboolean(L, 1);
    else
        lua_pushinteger(L, number);
    lua_rawset(L, d->identities);
    return had;
}

void identity_keep(decoder *d) {
    lua_State *L = d->L;
    if (!d->has_identities) return;
    clua_need_stack(L, 12);
    lua_pushnil(L);
    while (lua_next(L, d->identities)) {
        lua_Integer number = lua_tointeger(L, -1);
        lua_pop(L, 1);
        if (lua_istable(L, -1) && number != 0) clua_identify(L, number);
    }
}

void identity_drop_copy(decoder *d) {
    lua_State *L = d->L;
    bool is_registry = clua_has_weak_keys(L, -2);
    lua_pushnil(L);
    while (is_registry && lua_next(L, -2)) {
        lua_pushvalue(L, -2);
        bool is_there = lua_rawget(L, -5) != LUA_TNIL;
        lua_pop(L, 1);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        if (is_there)
            lua_pop(L, 2);
        else
            lua_rawset(L, -5);
    }
    lua_settop(L, lua_gettop(L) - (is_registry ? 1 : 2));
}
