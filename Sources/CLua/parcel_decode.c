#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "class_raising.h"
#include "code.h"
#include "environment_raising.h"
#include "lent_string.h"
#include "memory_raising.h"
#include "modules_raising.h"
#include "object_raising.h"
#include "parcel.h"
#include "parcel_format.h"
#include "parcel_raising.h"
#include "parcel_reader_raising.h"

typedef struct decoder {
    lua_State *L;
    const clua_parcel *parcel;
    parcel_reader reader;
    clua_environment environment;
    bool has_globals;
    bool has_strings;  // whether there is the table of strings
    bool needs_environment;  // what came by name may use globals, or has functions that belong to another parcel
    uint32_t object_count;
    uint32_t string_count;
    // Stack indices of tables, nil until needed.
    int environments;  // number -> environment
    int objects;       // ordinal -> object
    int strings;       // 1 + number -> string
    int classes;       // in turn classes, the numbers of their versions, contents, names and superclasses
    lua_Integer class_count;
    int late;          // alternately objects, and the metatables that they get at the end; the values follow on the stack
    lua_Integer late_count;
} decoder;

static void decode_value(decoder *d, int depth);

// MARK: strings

static int malformed(decoder *d) { return reader_malformed(&d->reader); }
static uint32_t read_count(decoder *d, size_t limit) { return reader_count(&d->reader, limit); }

static void push_string(decoder *d) {
    size_t count;
    const char *bytes = reader_string(&d->reader, &count);
    lua_pushlstring(d->L, bytes, count);
}

static void push_lent_string(decoder *d) {
    const clua_lent_string *string = d->parcel->strings[read_count(d, d->parcel->string_count)];
    lua_pushlstring(d->L, string->bytes, string->count);
}

// MARK: what is remembered

// Stores the value on top, which stays, in the table at stack index `table`, made when it is needed first.
static void keep(decoder *d, int table, lua_Integer number) {
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

// Strings have places in an array, the first few.
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

static void push_object_again(decoder *d, uint32_t ordinal) {
    if (ordinal >= d->object_count) malformed(d);
    push_kept(d, d->objects, ordinal);
}

static void push_environment(decoder *d, uint32_t number) {
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
    keep(d, d->environments, number);
}

// MARK: tables

// The value on top is the metatable of the object below it. Pops it.
static void set_metatable(decoder *d, bool is_late) {
    lua_State *L = d->L;
    if (!lua_istable(L, -1)) malformed(d);
    if (!is_late) {
        lua_setmetatable(L, -2);
        return;
    }
    lua_pushvalue(L, -2);
    keep(d, d->late, ++d->late_count);
    lua_pop(L, 1);
    keep(d, d->late, ++d->late_count);
    lua_pop(L, 1);
}

static void read_table_counts(decoder *d, uint32_t counts[2]) {
    memcpy(counts, reader_bytes(&d->reader, 2 * sizeof(uint32_t)), 2 * sizeof(uint32_t));
    if ((uint64_t)counts[0] + 2 * (uint64_t)counts[1] > reader_remaining(&d->reader)) malformed(d);
}

// Pushes what can be a key of a table.
static void decode_key(decoder *d, int depth) {
    int tag = reader_peek(&d->reader);
    decode_value(d, depth);
    if (tag == CLUA_TAG_STRING_AGAIN || tag == CLUA_TAG_STRING || tag == CLUA_TAG_STRING_KEPT) return;
    if (lua_isnil(d->L, -1) || (lua_type(d->L, -1) == LUA_TNUMBER && !lua_rawequal(d->L, -1, -1))) malformed(d);
}

// Fills the table on top, whose counts have been read.
static void fill_table(decoder *d, const uint32_t counts[2], int depth) {
    lua_State *L = d->L;
    int table = lua_gettop(L);
    for (uint32_t i = 1; i <= counts[0]; i++) {
        decode_value(d, depth);
        lua_rawseti(L, table, i);
    }
    for (uint32_t i = 0; i < counts[1]; i++) {
        decode_key(d, depth);
        decode_value(d, depth);
        lua_rawset(L, table);
    }
    switch (reader_byte(&d->reader)) {
    case CLUA_NO_METATABLE: break;
    case CLUA_METATABLE:
        decode_value(d, depth);
        set_metatable(d, false);
        break;
    case CLUA_METATABLE_LATER:
        decode_value(d, depth);
        set_metatable(d, true);
        break;
    default: malformed(d);
    }
}

static void decode_table(decoder *d, bool is_kept, int depth) {
    uint32_t ordinal = d->object_count++;
    uint32_t counts[2];
    read_table_counts(d, counts);
    clua_need_stack(d->L, 12);
    lua_createtable(d->L, (int)(counts[0] < INT32_MAX ? counts[0] : 0), (int)(counts[1] < INT32_MAX ? counts[1] : 0));
    if (is_kept) keep(d, d->objects, ordinal);
    fill_table(d, counts, depth + 1);
}

static void decode_table_later(decoder *d) {
    lua_createtable(d->L, 0, 0);
    keep(d, d->objects, d->object_count++);
}

// MARK: functions

// Sets the upvalues of the new function on top.
static void fill_function(decoder *d, int upvalue_count, int depth) {
    lua_State *L = d->L;
    int function = lua_gettop(L);
    for (int i = 1; i <= upvalue_count; i++) {
        if (reader_peek(&d->reader) == CLUA_TAG_UPVALUE_AGAIN) {
            d->reader.next++;
            uint32_t ordinal = read_count(d, d->object_count);
            uint32_t number = read_count(d, 256);
            push_object_again(d, ordinal);
            if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1) || lua_getupvalue(L, -1, (int)number) == NULL) malformed(d);
            lua_pop(L, 1);
            lua_upvaluejoin(L, function, i, lua_gettop(L), (int)number);
            lua_pop(L, 1);
        } else {
            decode_value(d, depth);
            lua_setupvalue(L, function, i);
        }
    }
}

// Returns its code.
static const clua_code *push_new_function(decoder *d) {
    clua_code *code = clua_parcel_code(d->parcel, read_count(d, d->parcel->code_count));
    clua_need_stack(d->L, 12);
    clua_code_instantiate(d->L, code);
    return code;
}

static void decode_function(decoder *d, bool is_kept, int depth) {
    uint32_t ordinal = d->object_count++;
    const clua_code *code = push_new_function(d);
    if (is_kept) keep(d, d->objects, ordinal);
    fill_function(d, code->upvalue_count, depth + 1);
}

static void decode_function_later(decoder *d) {
    uint32_t ordinal = d->object_count++;
    push_new_function(d);
    keep(d, d->objects, ordinal);
}

// MARK: other objects

static void decode_handle(decoder *d) {
    const clua_reference *reference = &d->parcel->references[read_count(d, d->parcel->reference_count)];
    clua_push_handle(d->L, reference->object, reference->kind);
}

// Pushes a class; what is in it follows.
static void decode_class(decoder *d) {
    const clua_reference *reference = &d->parcel->references[read_count(d, d->parcel->reference_count)];
    clua_need_stack(d->L, 12);
    if (reference->kind != clua_state_of(d->L)->host->class_kind) malformed(d);
    clua_push_class(d->L, reference->object, reference->kind);
    keep(d, d->objects, d->object_count++);
}

// An operation and its class.
static void decode_instance(decoder *d, int depth) {
    lua_State *L = d->L;
    clua_need_stack(L, 12);
    decode_handle(d);
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
    push_string(d);
    int name = lua_gettop(L);
    if (has_field) push_string(d);
    clua_push_module(L, name, has_field ? name + 1 : 0);
    lua_replace(L, name);
    lua_settop(L, name);
}

// Pushes the next value. `depth` is how many objects are being read around it. Whoever pushes more than scalars makes room.
static void decode_value(decoder *d, int depth) {
    lua_State *L = d->L;
    if (depth > CLUA_INLINE_DEPTH) malformed(d);
    uint8_t tag = reader_byte(&d->reader);
    switch (tag) {
    case CLUA_TAG_NIL: lua_pushnil(L); break;
    case CLUA_TAG_FALSE: lua_pushboolean(L, 0); break;
    case CLUA_TAG_TRUE: lua_pushboolean(L, 1); break;
    case CLUA_TAG_INTEGER: {
        uint64_t value = reader_varint(&d->reader);
        lua_pushinteger(L, (lua_Integer)((value >> 1) ^ (~(value & 1) + 1)));
        break;
    }
    case CLUA_TAG_FLOAT: {
        lua_Number value;
        memcpy(&value, reader_bytes(&d->reader, sizeof value), sizeof value);
        lua_pushnumber(L, value);
        break;
    }
    case CLUA_TAG_STRING:
        push_string(d);
        d->string_count++;
        break;
    case CLUA_TAG_STRING_KEPT:
        push_string(d);
        keep_string(d);
        break;
    case CLUA_TAG_STRING_LENT: push_lent_string(d); break;
    case CLUA_TAG_STRING_AGAIN: push_string_again(d); break;
    case CLUA_TAG_TABLE:
    case CLUA_TAG_TABLE_KEPT: decode_table(d, tag == CLUA_TAG_TABLE_KEPT, depth); break;
    case CLUA_TAG_TABLE_LATER: decode_table_later(d); break;
    case CLUA_TAG_FUNCTION:
    case CLUA_TAG_FUNCTION_KEPT: decode_function(d, tag == CLUA_TAG_FUNCTION_KEPT, depth); break;
    case CLUA_TAG_FUNCTION_LATER: decode_function_later(d); break;
    case CLUA_TAG_OBJECT_AGAIN: push_object_again(d, read_count(d, d->object_count)); break;
    case CLUA_TAG_HANDLE: decode_handle(d); break;
    case CLUA_TAG_INSTANCE: decode_instance(d, depth); break;
    case CLUA_TAG_CLASS: decode_class(d); break;
    case CLUA_TAG_ENVIRONMENT: push_environment(d, read_count(d, UINT32_MAX)); break;
    case CLUA_TAG_MODULE:
    case CLUA_TAG_MODULE_FIELD: decode_module(d, tag == CLUA_TAG_MODULE_FIELD); break;
    default: malformed(d);
    }
}

// MARK: the whole

static void decode_body_record(decoder *d) {
    lua_State *L = d->L;
    push_object_again(d, read_count(d, d->object_count));
    if (lua_istable(L, -1)) {
        uint32_t counts[2];
        read_table_counts(d, counts);
        fill_table(d, counts, 1);
    } else if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
        lua_Debug about;
        lua_pushvalue(L, -1);
        lua_getinfo(L, ">u", &about);
        fill_function(d, about.nups, 1);
    } else {
        malformed(d);
    }
    lua_pop(L, 1);
}

// Contents are put in place when everything is complete.
static void decode_class_record(decoder *d) {
    lua_State *L = d->L;
    int class = lua_gettop(L) + 1;
    clua_need_stack(L, 20);
    push_object_again(d, read_count(d, d->object_count));
    if (clua_class_handle(L, class) == NULL) malformed(d);
    lua_pushinteger(L, (lua_Integer)reader_varint(&d->reader));
    push_string(d);
    decode_value(d, 1);
    decode_value(d, 1);
    if (clua_identify_class(L, -2).built_in == NULL && clua_class_handle(L, -2) == NULL) malformed(d);
    if (!lua_istable(L, -1)) malformed(d);
    lua_insert(L, class + 2);
    // Stack: class, version, contents, name, superclass; all are kept.
    for (int i = 0; i < 5; i++) {
        lua_pushvalue(L, class + i);
        keep(d, d->classes, ++d->class_count);
        lua_pop(L, 1);
    }
    lua_settop(L, class - 1);
}

static void decode_global_record(decoder *d) {
    lua_State *L = d->L;
    if (!d->has_globals) malformed(d);
    push_environment(d, read_count(d, UINT32_MAX));
    push_string(d);
    decode_value(d, 0);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        clua_hide_global(L);
    } else {
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}

// Calls the function with the arguments that are all in one table.
static void decode_rebuilt_record(decoder *d) {
    lua_State *L = d->L;
    push_object_again(d, read_count(d, d->object_count));
    int arguments = lua_gettop(L);
    uint32_t count = read_count(d, 1000000);
    if (!lua_istable(L, arguments) || count == 0) malformed(d);
    luaL_checkstack(L, (int)count + 8, "too many values from __transfer");
    for (uint32_t i = 1; i <= count; i++) lua_rawgeti(L, arguments, i);
    lua_call(L, (int)count - 1, 1);
    keep(d, d->objects, d->object_count++);
    lua_settop(L, arguments - 1);
}

static void decode_place_record(decoder *d) {
    lua_State *L = d->L;
    int container = lua_gettop(L) + 1;
    for (int i = 0; i < 3; i++) decode_value(d, 1);
    // The value of a place is the first of what a script's function returned.
    bool is_key = !lua_isnil(L, container + 1) && lua_rawequal(L, container + 1, container + 1);
    lua_Integer number = lua_tointeger(L, container + 1);
    if (lua_istable(L, container)) {
        if (is_key) lua_rawset(L, container);
    } else if (lua_isnil(L, container)) {
        if (number < 1 || number > d->parcel->value_count) malformed(d);
        lua_replace(L, d->late + (int)number);
    } else {
        if (!lua_isfunction(L, container) || lua_iscfunction(L, container) || number < 1 || number > 255) malformed(d);
        if (lua_setupvalue(L, container, (int)number) == NULL) malformed(d);
    }
    lua_settop(L, container - 1);
}

// A table that other records refer to.
static void decode_table_record(decoder *d) {
    decode_table(d, true, 0);
    lua_pop(d->L, 1);
}

static void decode_records(decoder *d) {
    for (;;) switch (reader_byte(&d->reader)) {
        case CLUA_TAG_TABLE_KEPT: decode_table_record(d); break;
        case CLUA_TAG_REBUILT: decode_rebuilt_record(d); break;
        case CLUA_TAG_PLACE: decode_place_record(d); break;
        case CLUA_TAG_BODY: decode_body_record(d); break;
        case CLUA_TAG_CLASS_BODY: decode_class_record(d); break;
        case CLUA_TAG_GLOBAL: decode_global_record(d); break;
        case CLUA_TAG_END: return;
        default: malformed(d);
        }
}

static void set_late_metatables(decoder *d) {
    lua_State *L = d->L;
    for (lua_Integer i = 1; i < d->late_count; i += 2) {
        lua_rawgeti(L, d->late, i);
        lua_rawgeti(L, d->late, i + 1);
        lua_setmetatable(L, -2);
        lua_pop(L, 1);
    }
}

static void set_classes(decoder *d) {
    lua_State *L = d->L;
    clua_need_stack(L, 20);
    for (lua_Integer i = 1; i < d->class_count; i += 5) {
        int class = lua_gettop(L) + 1;
        for (int j = 0; j < 5; j++) lua_rawgeti(L, d->classes, i + j);
        lua_Integer version = lua_tointeger(L, class + 1);
        lua_remove(L, class + 1);
        // What runs sees the contents that came with it.
        clua_set_class_contents(L, class, version, d->environment == CLUA_FRESH_ENVIRONMENT);
        lua_pop(L, 1);
    }
}

bool clua_parcel_ignores_arguments(const clua_parcel *parcel) {
    // The first function that is met has the first code.
    if (parcel->value_count == 0 || parcel->byte_count < 2 || parcel->code_count == 0) return false;
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
        .late = base + 5,
    };
    if (parcel->value_count > 0) {
        decoder.has_globals = reader_byte(&decoder.reader) == CLUA_HAS_GLOBALS;
        for (int i = 0; i < parcel->value_count; i++) decode_value(&decoder, 0);
        decode_records(&decoder);
        set_classes(&decoder);
        set_late_metatables(&decoder);
        // A body that has `load` as an upvalue may use globals although its own code does not.
        if (decoder.needs_environment && environment == CLUA_FRESH_ENVIRONMENT) {
            push_environment(&decoder, 0);
            lua_pop(L, 1);
        }
    }
    if (lua_istable(L, decoder.environments)) {
        lua_rawgeti(L, decoder.environments, 0);
        lua_replace(L, decoder.environments);
    }
}
