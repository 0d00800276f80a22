#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "Transfer/code.h"
#include "Transfer/decoder_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/shared_string.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_identity.h"
#include "Transfer/lent_string_raising.h"
#include "Transfer/parcel_raising.h"
#include "parcel.h"

// MARK: strings

static void push_text(parcel_reader *reader) {
    size_t count;
    const char *bytes = reader_string(reader, &count);
    lua_pushlstring(reader->L, bytes, count);
}

void decoder_push_string(decoder *d) { push_text(&d->reader); }

static void push_shared_string(decoder *d) {
    clua_push_shared_string(d->L, clua_parcel_string(d->parcel, read_count(d, clua_parcel_string_count(d->parcel))));
}

// MARK: values met before

void decoder_keep(decoder *d, int table, lua_Integer number) {
    lua_State *L = d->L;
    if (lua_isnil(L, table)) {
        lua_createtable(L, 0, 4);
        lua_replace(L, table);
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, table, number);
}

static void push_kept(decoder *d, int table, lua_Integer number) {
    if (lua_isnil(d->L, table)) malformed(d);
    lua_rawgeti(d->L, table, number);
}

// The strings that a parcel refers to again are in an array, preallocated for the first few.
static void keep_string(decoder *d) {
    lua_State *L = d->L;
    if (!d->has_strings) {
        lua_createtable(L, 16, 0);
        lua_replace(L, d->strings);
        d->has_strings = true;
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, d->strings, (lua_Integer)++d->string_count);
}

static void push_string_again(decoder *d) {
    uint32_t number = read_count(d, d->string_count);
    if (!d->has_strings || lua_rawgeti(d->L, d->strings, (lua_Integer)number + 1) != LUA_TSTRING) malformed(d);
}

void decoder_push_object(decoder *d, uint32_t ordinal) {
    if (ordinal >= d->object_count) malformed(d);
    push_kept(d, d->objects, ordinal);
}

void decoder_push_environment(decoder *d, uint32_t number) {
    lua_State *L = d->L;
    if (d->environment == CLUA_CURRENT_ENVIRONMENT && !d->has_globals) {
        clua_push_current_globals(L);
        return;
    }
    if (!lua_isnil(L, d->environments)) {
        if (lua_rawgeti(L, d->environments, number) == LUA_TTABLE) return;
        lua_pop(L, 1);
    }
    if (d->environment == CLUA_FRESH_ENVIRONMENT)
        clua_push_environment(L);
    else
        clua_push_overlay(L);
    decoder_keep(d, d->environments, number);
}

// Fills all environments, because some function may inspect the table itself.
static void fill_environments(decoder *d) {
    lua_State *L = d->L;
    if (lua_isnil(L, d->environments)) return;
    lua_pushnil(L);
    while (lua_next(L, d->environments)) {
        clua_fill_environment(L, -1);
        lua_pop(L, 1);
    }
}

// MARK: tables

// Raises an error if a metamethod of the metatable on top is a function of a library: an operator of the host's code would call it with values of
// the sender's choice.
static void refuse_library_metamethods(lua_State *L) {
    clua_need_stack(L, 3);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        if (lua_iscfunction(L, -1) && strncmp(name, "__", 2) == 0 && strcmp(name, "__gc") != 0) luaL_error(L, CLUA_METAMETHOD_REFUSED);
        lua_pop(L, 1);
    }
}

// Pops the metatable on top, which the object below it gets. Lua looks for a finalizer only now, so where none may run, it finds none.
static void give_metatable(decoder *d) {
    lua_State *L = d->L;
    const clua_state *state = clua_state_of(L);
    bool is_stand_in = state->wrap_function != NULL;
    if (d->is_from_process) refuse_library_metamethods(L);
    if (!is_stand_in && !d->is_from_process && !(state->restrictions & CLUA_NO_FINALIZERS)) {
        lua_setmetatable(L, -2);
        return;
    }
    clua_need_stack(L, 3);
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, -2) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_setmetatable(L, -2);
        return;
    }
    lua_pushliteral(L, "__gc");
    lua_pushnil(L);
    lua_rawset(L, -4);
    lua_pushvalue(L, -2);
    lua_setmetatable(L, -4);
    lua_pushliteral(L, "__gc");
    lua_insert(L, -2);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

bool decode_table_counts(decoder *d, uint32_t counts[2]) {
    memcpy(counts, reader_bytes(&d->reader, 2 * sizeof(uint32_t)), 2 * sizeof(uint32_t));
    bool has_array_part = (counts[0] & CLUA_NO_ARRAY_PART) == 0;
    counts[0] &= ~CLUA_NO_ARRAY_PART;
    if ((uint64_t)counts[0] + 2 * (uint64_t)counts[1] > reader_remaining(&d->reader)) malformed(d);
    return has_array_part;
}

// Pushes a value that is valid as a table key.
static void decode_key(decoder *d, int depth) {
    int tag = reader_peek(&d->reader);
    decode_value(d, depth);
    if (tag == CLUA_TAG_STRING_AGAIN || tag == CLUA_TAG_STRING || tag == CLUA_TAG_STRING_KEPT) return;
    if (lua_isnil(d->L, -1) || (lua_type(d->L, -1) == LUA_TNUMBER && !lua_rawequal(d->L, -1, -1))) malformed(d);
}

void decode_table_body(decoder *d, const uint32_t counts[2], bool had, int depth) {
    lua_State *L = d->L;
    if (had) lua_createtable(L, 0, 0);
    int table = lua_gettop(L);
    for (uint32_t i = 1; i <= counts[0]; i++) {
        decode_value(d, depth);
        lua_rawseti(L, table, i);
    }
    for (uint32_t i = 0; i < counts[1]; i++) {
        if (reader_peek(&d->reader) == CLUA_TAG_NIL) {
            // The pair is rebuilt later.
            reader_byte(&d->reader);
            if (reader_byte(&d->reader) != CLUA_TAG_NIL) malformed(d);
            continue;
        }
        decode_key(d, depth);
        decode_value(d, depth);
        lua_rawset(L, table);
    }
    uint8_t kind = reader_byte(&d->reader);
    if (kind > CLUA_METATABLE) malformed(d);
    if (kind != CLUA_NO_METATABLE) {
        decode_value(d, depth);
        if (!lua_istable(L, -1)) malformed(d);
        if (had)
            lua_pop(L, 1);
        else
            give_metatable(d);
    }
    if (had) identity_drop_copy(d);
}

void decode_table(decoder *d, bool is_kept, int depth) {
    uint32_t ordinal = d->object_count++;
    uint32_t counts[2];
    bool has_array_part = decode_table_counts(d, counts);
    uint32_t places = has_array_part ? counts[0] : 0, pairs = counts[1] + counts[0] - places;
    clua_need_stack(d->L, 12);
    lua_createtable(d->L, (int)places, (int)(pairs < INT32_MAX ? pairs : 0));
    bool had = is_kept && identity_find(d, ordinal);
    if (is_kept) decoder_keep(d, d->objects, ordinal);
    decode_table_body(d, counts, had, depth + 1);
}

static void decode_table_later(decoder *d) {
    // Each place and each pair takes at least one byte of the record.
    size_t most = d->parcel->byte_count + 1;
    uint32_t places = read_count(d, most), pairs = read_count(d, most);
    // A parcel of many such tables could promise much more than it has.
    d->promised_count += (uint64_t)places + pairs;
    if (d->promised_count > d->parcel->byte_count) malformed(d);
    lua_createtable(d->L, (int)(places < INT32_MAX ? places : 0), (int)(pairs < INT32_MAX ? pairs : 0));
    identity_find(d, d->object_count);
    decoder_keep(d, d->objects, d->object_count++);
}

// MARK: functions

// Decodes an upvalue that is an environment. A function that accesses globals by name only does not inspect the table itself.
static void decode_environment_upvalue(decoder *d, const clua_code *code, int number) {
    d->reader.next++;
    if (code == NULL || clua_code_uses_whole(code, number)) d->uses_environment = true;
    decoder_push_environment(d, read_count(d, UINT32_MAX));
}

// Decodes an upvalue that shares the cell of another function's upvalue.
static void decode_upvalue_again(decoder *d, const clua_code *code, int function, int number) {
    lua_State *L = d->L;
    d->reader.next++;
    uint32_t ordinal = read_count(d, d->object_count);
    uint32_t others = read_count(d, 256);
    decoder_push_object(d, ordinal);
    if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1) || lua_getupvalue(L, -1, (int)others) == NULL) malformed(d);
    bool is_environment = lua_istable(L, -1) && clua_is_environment(L, -1);
    if (is_environment && (code == NULL || clua_code_uses_whole(code, number))) d->uses_environment = true;
    lua_pop(L, 1);
    lua_upvaluejoin(L, function, number, lua_gettop(L), (int)others);
    lua_pop(L, 1);
}

void decode_upvalues(decoder *d, const clua_code *code, int upvalue_count, int depth) {
    lua_State *L = d->L;
    int function = lua_gettop(L);
    for (int i = 1; i <= upvalue_count; i++) {
        int tag = reader_peek(&d->reader);
        if (tag == CLUA_TAG_UPVALUE_AGAIN) {
            decode_upvalue_again(d, code, function, i);
            continue;
        }
        if (tag == CLUA_TAG_ENVIRONMENT)
            decode_environment_upvalue(d, code, i);
        else
            decode_value(d, depth);
        lua_setupvalue(L, function, i);
    }
}

// Returns the function's code.
static const clua_code *push_new_function(decoder *d) {
    clua_code *code = clua_parcel_code(d->parcel, read_count(d, clua_parcel_code_count(d->parcel)));
    clua_need_stack(d->L, 12);
    clua_code_instantiate(d->L, code);
    return code;
}

static void decode_function(decoder *d, bool is_kept, int depth) {
    uint32_t ordinal = d->object_count++;
    const clua_code *code = push_new_function(d);
    if (is_kept) decoder_keep(d, d->objects, ordinal);
    decode_upvalues(d, code, code->upvalue_count, depth + 1);
}

static void decode_function_later(decoder *d) {
    uint32_t ordinal = d->object_count++;
    push_new_function(d);
    decoder_keep(d, d->objects, ordinal);
}

// MARK: other objects

static void decode_handle(decoder *d) {
    const clua_reference *reference = clua_parcel_reference(d->parcel, read_count(d, clua_parcel_reference_count(d->parcel)));
    clua_push_handle(d->L, reference->object, reference->kind);
}

static void decode_frozen(decoder *d) {
    clua_push_frozen(d->L, clua_parcel_frozen(d->parcel, read_count(d, clua_parcel_frozen_count(d->parcel))));
}

// Pushes a class. A record with its contents follows.
static void decode_class(decoder *d) {
    const clua_reference *reference = clua_parcel_reference(d->parcel, read_count(d, clua_parcel_reference_count(d->parcel)));
    clua_need_stack(d->L, 12);
    if (reference->kind != clua_state_of(d->L)->host->class_kind) malformed(d);
    clua_push_class(d->L, reference->object, reference->kind);
    decoder_keep(d, d->objects, d->object_count++);
}

// Pushes an operation, and adopts its class.
static void decode_instance(decoder *d, int depth) {
    lua_State *L = d->L;
    clua_need_stack(L, 12);
    decode_handle(d);
    if (reader_peek(&d->reader) == CLUA_TAG_INSTANCE) malformed(d);  // no class is one, and these would be at no greater depth
    decode_value(d, depth);
    const clua_handle *handle = clua_to_handle(L, -2);
    if (handle->class_object == NULL) malformed(d);
    if (clua_class_handle(L, -1) == NULL) luaL_error(L, "the class of an operation is a %s here", luaL_typename(L, -1));
    clua_adopt_class(L, handle->class_object);
    lua_pop(L, 1);
}

static void decode_module(decoder *d, bool has_field) {
    lua_State *L = d->L;
    d->needs_environment = true;
    clua_need_stack(L, 12);
    decoder_push_string(d);
    int name = lua_gettop(L);
    if (has_field) decoder_push_string(d);
    if (d->environment == CLUA_FRESH_ENVIRONMENT) {
        // The module may belong to this body.
        clua_push_current_globals(L);
        decoder_push_environment(d, 0);
        clua_set_current_globals(L);
    } else {
        clua_push_current_globals(L);
    }
    int globals = lua_gettop(L);
    clua_push_module(L, name, has_field ? name + 1 : 0);
    lua_pushvalue(L, globals);
    clua_set_current_globals(L);
    if (lua_istable(L, -1)) clua_note_library_code(clua_state_of(L));
    lua_replace(L, name);
    lua_settop(L, name);
}

void decode_plain(parcel_reader *reader, uint8_t tag) {
    lua_State *L = reader->L;
    switch (tag) {
    case CLUA_TAG_NIL: lua_pushnil(L); break;
    case CLUA_TAG_FALSE: lua_pushboolean(L, 0); break;
    case CLUA_TAG_TRUE: lua_pushboolean(L, 1); break;
    case CLUA_TAG_INTEGER: {
        uint64_t value = reader_varint(reader);
        lua_pushinteger(L, (lua_Integer)((value >> 1) ^ (~(value & 1) + 1)));
        break;
    }
    case CLUA_TAG_FLOAT: {
        lua_Number value;
        memcpy(&value, reader_bytes(reader, sizeof value), sizeof value);
        lua_pushnumber(L, value);
        break;
    }
    default: push_text(reader);
    }
}

void decode_value(decoder *d, int depth) {
    if (depth > CLUA_INLINE_DEPTH) malformed(d);
    uint8_t tag = reader_byte(&d->reader);
    if (tag <= CLUA_TAG_STRING) {
        decode_plain(&d->reader, tag);
        d->string_count += tag == CLUA_TAG_STRING;
        return;
    }
    switch (tag) {
    case CLUA_TAG_STRING_KEPT:
        decoder_push_string(d);
        keep_string(d);
        break;
    case CLUA_TAG_STRING_SHARED: push_shared_string(d); break;
    case CLUA_TAG_STRING_AGAIN: push_string_again(d); break;
    case CLUA_TAG_TABLE:
    case CLUA_TAG_TABLE_KEPT: decode_table(d, tag == CLUA_TAG_TABLE_KEPT, depth); break;
    case CLUA_TAG_TABLE_LATER: decode_table_later(d); break;
    case CLUA_TAG_FUNCTION:
    case CLUA_TAG_FUNCTION_KEPT: decode_function(d, tag == CLUA_TAG_FUNCTION_KEPT, depth); break;
    case CLUA_TAG_FUNCTION_LATER: decode_function_later(d); break;
    case CLUA_TAG_OBJECT_AGAIN: decoder_push_object(d, read_count(d, d->object_count)); break;
    case CLUA_TAG_HANDLE: decode_handle(d); break;
    case CLUA_TAG_INSTANCE: decode_instance(d, depth); break;
    case CLUA_TAG_CLASS: decode_class(d); break;
    case CLUA_TAG_FROZEN: decode_frozen(d); break;
    case CLUA_TAG_ENVIRONMENT:
        d->uses_environment = true;
        decoder_push_environment(d, read_count(d, UINT32_MAX));
        break;
    case CLUA_TAG_MODULE:
    case CLUA_TAG_MODULE_FIELD: decode_module(d, tag == CLUA_TAG_MODULE_FIELD); break;
    default: malformed(d);
    }
}

// MARK: parcels

static void decode_switches(decoder *d) {
    lua_State *L = d->L;
    clua_need_stack(L, 12);
    decoder_push_environment(d, 0);
    for (uint32_t count = read_count(d, reader_remaining(&d->reader)); count > 0; count--) {
        decoder_push_string(d);
        uint8_t tag = reader_byte(&d->reader);
        if (tag > CLUA_TAG_STRING) malformed(d);
        decode_plain(&d->reader, tag);
        // Values that arrive in a running state bring these globals in a record, too, for themselves.
        if (d->environment == CLUA_FRESH_ENVIRONMENT)
            lua_rawset(L, -3);
        else
            lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static void set_classes(decoder *d) {
    lua_State *L = d->L;
    clua_need_stack(L, 20);
    for (lua_Integer i = 1; i < d->class_count; i += 5) {
        int class = lua_gettop(L) + 1;
        for (int j = 0; j < 5; j++) lua_rawgeti(L, d->classes, i + j);
        lua_Integer version = lua_tointeger(L, class + 1);
        lua_remove(L, class + 1);
        // A new body sees the contents that came with it.
        clua_set_class_contents(L, class, version, d->environment == CLUA_FRESH_ENVIRONMENT);
        lua_pop(L, 1);
    }
}

bool clua_parcel_ignores_arguments(const clua_parcel *parcel) {
    // The first function in a parcel has the first code.
    if (parcel->value_count == 0 || parcel->byte_count < 2 || clua_parcel_code_count(parcel) == 0) return false;
    if (clua_parcel_bytes(parcel)[0] & CLUA_HAS_SWITCHES) return false;
    uint8_t tag = clua_parcel_bytes(parcel)[1];
    return (tag == CLUA_TAG_FUNCTION || tag == CLUA_TAG_FUNCTION_KEPT) && !clua_parcel_code(parcel, 0)->has_parameters;
}

void clua_decode_here(lua_State *L, const clua_parcel *parcel, clua_environment environment) {
    luaL_checkstack(L, parcel->value_count + 16, "too many values");
    int base = lua_gettop(L) - CLUA_DECODING_SLOTS;
    decoder decoder = {
        .L = L,
        .parcel = parcel,
        .reader = {.L = L, .next = clua_parcel_bytes(parcel), .end = clua_parcel_bytes(parcel) + parcel->byte_count},
        .environment = environment,
        .environments = base + 1,
        .objects = base + 2,
        .strings = base + 3,
        .classes = base + 4,
        .identities = base + 5,
        .values = base + CLUA_DECODING_SLOTS,
    };
    if (parcel->value_count > 0) {
        uint8_t flags = reader_byte(&decoder.reader);
        decoder.has_globals = (flags & CLUA_HAS_GLOBALS) != 0;
        decoder.is_from_process = (flags & CLUA_FROM_PROCESS) != 0;
        if ((flags & CLUA_HAS_IDENTITIES) != 0) identity_read(&decoder);
        if (flags & CLUA_HAS_SWITCHES) decode_switches(&decoder);
        if (flags & CLUA_HAS_CLASSES) classes_read(&decoder);
        for (int i = 0; i < parcel->value_count; i++) decode_value(&decoder, 0);
        decode_records(&decoder);
        set_classes(&decoder);
        identity_keep(&decoder);
        // A body with `load` as an upvalue may use globals even if its own code does not.
        if (decoder.needs_environment && environment == CLUA_FRESH_ENVIRONMENT) {
            decoder_push_environment(&decoder, 0);
            lua_pop(L, 1);
        }
    }
    if (decoder.uses_environment) clua_note_library_code(clua_state_of(L));
    if (decoder.uses_environment && environment == CLUA_FRESH_ENVIRONMENT) fill_environments(&decoder);
    if (lua_istable(L, decoder.environments)) {
        lua_rawgeti(L, decoder.environments, 0);
        lua_replace(L, decoder.environments);
    }
}
