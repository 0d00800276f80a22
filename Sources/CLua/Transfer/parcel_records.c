// Decoding the records that follow the values of a parcel.
#include <lua5.4/lauxlib.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/private_tables_raising.h"
#include "Objects/class_raising.h"
#include "Transfer/decoder_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_identity.h"

static void decode_body_record(decoder *d) {
    lua_State *L = d->L;
    uint32_t ordinal = read_count(d, d->object_count);
    decoder_push_object(d, ordinal);
    if (lua_istable(L, -1)) {
        uint32_t counts[2];
        decode_table_counts(d, counts);
        decode_table_body(d, counts, identity_had(d, ordinal), 1);
    } else if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
        lua_Debug about;
        lua_pushvalue(L, -1);
        lua_getinfo(L, ">u", &about);
        decode_upvalues(d, NULL, about.nups, 1);
    } else {
        malformed(d);
    }
    lua_pop(L, 1);
}

// The contents are installed when everything else is complete.
static void decode_class_record(decoder *d) {
    lua_State *L = d->L;
    int class = lua_gettop(L) + 1;
    clua_need_stack(L, 20);
    decoder_push_object(d, read_count(d, d->object_count));
    if (clua_class_handle(L, class) == NULL) malformed(d);
    lua_pushinteger(L, (lua_Integer)reader_varint(&d->reader));
    decoder_push_string(d);
    decode_value(d, 1);
    decode_value(d, 1);
    if (clua_identify_class(L, -2).built_in == NULL && clua_class_handle(L, -2) == NULL) malformed(d);
    if (!lua_istable(L, -1)) malformed(d);
    lua_insert(L, class + 2);
    // Stack: class, version, contents, name, superclass. All five are stored.
    for (int i = 0; i < 5; i++) {
        lua_pushvalue(L, class + i);
        decoder_keep(d, d->classes, ++d->class_count);
        lua_pop(L, 1);
    }
    lua_settop(L, class - 1);
}

static void decode_global_record(decoder *d) {
    lua_State *L = d->L;
    if (!d->has_globals) malformed(d);
    decoder_push_environment(d, read_count(d, UINT32_MAX));
    decoder_push_string(d);
    decode_value(d, 0);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        clua_hide_global(L);
    } else {
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}

// Calls the function in a table with the arguments in the same table.
static void decode_rebuilt_record(decoder *d) {
    lua_State *L = d->L;
    decoder_push_object(d, read_count(d, d->object_count));
    int arguments = lua_gettop(L);
    uint32_t count = read_count(d, 1000000);
    if (!lua_istable(L, arguments) || count == 0) malformed(d);
    if (d->is_from_process) luaL_error(L, CLUA_METAMETHOD_REFUSED);
    luaL_checkstack(L, (int)count + 8, "too many values from __transfer");
    for (uint32_t i = 1; i <= count; i++) lua_rawgeti(L, arguments, i);
    lua_call(L, (int)count - 1, 1);
    decoder_keep(d, d->objects, d->object_count++);
    lua_settop(L, arguments - 1);
}

static void decode_fixup_record(decoder *d) {
    lua_State *L = d->L;
    int container = lua_gettop(L) + 1, tag = reader_peek(&d->reader);
    // Without globals of its own, a parcel would change those of the reader.
    if (tag == CLUA_TAG_ENVIRONMENT && d->environment == CLUA_CURRENT_ENVIRONMENT && !d->has_globals) malformed(d);
    for (int i = 0; i < 3; i++) decode_value(d, 1);
    bool is_registry = lua_istable(L, container) && clua_has_weak_keys(L, container);
    if (!is_registry && (tag == CLUA_TAG_MODULE || tag == CLUA_TAG_MODULE_FIELD)) {
        // A worker undoes the change before the next body. Values that arrive in a running state change nothing there.
        if (lua_istable(L, container) && d->environment == CLUA_FRESH_ENVIRONMENT && clua_state_of(L)->separates_globals)
            clua_change_field(L, container);
        lua_settop(L, container - 1);
        return;
    }
    // The value is the first result of a script's function, so it may be nil, or NaN as a key.
    bool is_key = !lua_isnil(L, container + 1) && lua_rawequal(L, container + 1, container + 1);
    lua_Integer number = lua_tointeger(L, container + 1);
    if (lua_istable(L, container)) {
        // A class keeps its fields, and a registry its entries.
        bool is_kept = identity_had_table(d, container);
        if (!is_kept && is_key && is_registry) {
            lua_pushvalue(L, container + 1);
            is_kept = lua_rawget(L, container) != LUA_TNIL;
        }
        lua_settop(L, container + 2);
        if (is_key && !is_kept) lua_rawset(L, container);
    } else if (lua_isnil(L, container)) {
        if (number < 1 || number > d->parcel->value_count) malformed(d);
        lua_replace(L, d->values + (int)number);
    } else {
        if (!lua_isfunction(L, container) || lua_iscfunction(L, container) || number < 1 || number > 255) malformed(d);
        if (lua_setupvalue(L, container, (int)number) == NULL) malformed(d);
    }
    lua_settop(L, container - 1);
}

// Decodes a table that other records refer to.
static void decode_table_record(decoder *d) {
    decode_table(d, true, 0);
    lua_pop(d->L, 1);
}

void decode_records(decoder *d) {
    for (;;) switch (reader_byte(&d->reader)) {
        case CLUA_TAG_TABLE_KEPT: decode_table_record(d); break;
        case CLUA_TAG_REBUILT: decode_rebuilt_record(d); break;
        case CLUA_TAG_FIXUP: decode_fixup_record(d); break;
        case CLUA_TAG_BODY: decode_body_record(d); break;
        case CLUA_TAG_CLASS_BODY: decode_class_record(d); break;
        case CLUA_TAG_GLOBAL: decode_global_record(d); break;
        case CLUA_TAG_END: return;
        default: malformed(d);
        }
}
