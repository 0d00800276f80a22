#include "Transfer/parcel_flat.h"

#include "Libraries/environment_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/code.h"
#include "Transfer/decoder_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_reader_raising.h"
#include "Transfer/parcel_writer.h"
#include "Transfer/shared_string.h"

// MARK: encoding

// All these functions return false, and change nothing but the writer, if a value is not flat.

// Writes the value at `index`, which has this type.
static bool write_flat(parcel_writer *writer, lua_State *L, int index, int type) {
    size_t count;
    const char *bytes;
    switch (type) {
    case LUA_TNIL: writer_byte(writer, CLUA_TAG_NIL); return true;
    case LUA_TBOOLEAN: writer_byte(writer, lua_toboolean(L, index) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE); return true;
    case LUA_TNUMBER: write_number(writer, L, index); return true;
    case LUA_TSTRING:
        bytes = lua_tolstring(L, index, &count);
        if (count >= CLUA_MIN_SHARED_STRING) return false;
        write_text(writer, bytes, count);
        return true;
    default: return false;
    }
}

// Upvalues that share a cell are not flat.
static bool is_first_of_its_cell(lua_State *L, int function, int number) {
    const void *cell = number > 1 ? lua_upvalueid(L, function, number) : NULL;
    for (int i = 1; i < number; i++)
        if (lua_upvalueid(L, function, i) == cell) return false;
    return true;
}

// Whether a string may have another method than a fresh state's under a name that the function calls.
static bool may_need_changes(lua_State *L, const clua_code *code) {
    if (code->global_read_count == 0 || code->global_reads[0].upvalue != 0) return false;
    if (clua_state_of(L)->modules_changed || !lua_checkstack(L, 6)) return true;
    for (size_t i = 0; i < code->global_read_count && code->global_reads[i].upvalue == 0; i++) {
        const clua_global_read *read = &code->global_reads[i];
        // Making a long string may raise an error, for which nothing here is prepared.
        if (read->name_count > CLUA_MAX_KEPT_STRING || clua_is_method_changed(L, read->name, read->name_count)) return true;
    }
    return false;
}

// Writes a function of known code whose upvalues are flat. Such a function uses no globals, since `_ENV` is a
// table and not flat.
static bool write_flat_function(parcel_writer *writer, lua_State *L, clua_code *code) {
    enum { MAX_UPVALUES = 8 };
    if (code == NULL || code->upvalue_count > MAX_UPVALUES || may_need_changes(L, code)) return false;
    writer_byte(writer, CLUA_TAG_FUNCTION);
    writer_varint(writer, 0);
    int function = lua_gettop(L);
    for (int i = 1; i <= code->upvalue_count; i++) {
        if (!is_first_of_its_cell(L, function, i)) return false;
        lua_getupvalue(L, function, i);
        bool is_flat = write_flat(writer, L, -1, lua_type(L, -1));
        lua_pop(L, 1);
        if (!is_flat) return false;
    }
    return true;
}

// Writes a table of a few plain values: a row, or a short list. The bytes are those that the encoder would write.
static bool write_flat_table(parcel_writer *writer, lua_State *L) {
    enum { MAX_FIELDS = 64 };  // a table that turns out not to be flat is written twice
    if (!lua_checkstack(L, 4)) return false;
    int table = lua_gettop(L);
    if (lua_getmetatable(L, table)) {
        lua_pop(L, 1);
        return false;
    }
    if (clua_is_environment(L, table) || clua_may_travel_by_name(L, table)) return false;
    writer_byte(writer, CLUA_TAG_TABLE);
    size_t counts_at = writer->count;
    struct {
        uint32_t elements, pairs;  // values at 1, 2, 3 …; others, with their keys
    } counts = {0, 0};
    writer_bytes(writer, &counts, sizeof counts);
    bool in_sequence = true, has_number = false;  // a number among the pairs
    lua_pushnil(L);
    while (lua_next(L, table)) {
        int key = lua_type(L, -2);
        in_sequence = in_sequence && key == LUA_TNUMBER && lua_isinteger(L, -2) && lua_tointeger(L, -2) == (lua_Integer)counts.elements + 1;
        bool is_flat = counts.elements + counts.pairs < MAX_FIELDS;
        if (is_flat && !in_sequence) is_flat = write_flat(writer, L, -2, key);
        if (is_flat) is_flat = write_flat(writer, L, -1, lua_type(L, -1));
        if (!is_flat) {
            lua_settop(L, table);
            return false;
        }
        if (in_sequence)
            counts.elements++;
        else
            counts.pairs++;
        has_number |= !in_sequence && key == LUA_TNUMBER;
        lua_pop(L, 1);
    }
    // If a value before the border is missing, `#` depends on the array part.
    if (has_number && lua_rawlen(L, table) > (lua_Unsigned)counts.elements + 1) return false;
    if (!writer->failed) memcpy(writer->bytes + counts_at, &counts, sizeof counts);
    writer_byte(writer, CLUA_NO_METATABLE);
    return true;
}

// Writes a nil, a boolean or a number into the parcel without a writer.
static bool encode_scalar(lua_State *L, int type, clua_parcel *parcel) {
    uint8_t *bytes = (uint8_t *)parcel->few;
    size_t count = 1;
    switch (type) {
    case LUA_TNIL: bytes[1] = CLUA_TAG_NIL; break;
    case LUA_TBOOLEAN: bytes[1] = lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE; break;
    case LUA_TNUMBER: count = put_number(bytes + 1, L, -1); break;
    default: return false;
    }
    bytes[0] = 0;
    bytes[1 + count] = CLUA_TAG_END;
    parcel->byte_count = count + 2;
    parcel->value_count = 1;
    parcel->is_flat = true;
    return true;
}

static bool encode_with_writer(lua_State *L, int type, clua_parcel *parcel) {
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, 0);
    clua_code *code = NULL;
    bool is_flat;
    if (type == LUA_TSTRING)
        is_flat = write_flat(&writer, L, -1, type);
    else if (type == LUA_TTABLE)
        is_flat = write_flat_table(&writer, L);
    else
        is_flat = !lua_iscfunction(L, -1) && lua_checkstack(L, 2) && !clua_may_travel_by_name(L, -1)
            && write_flat_function(&writer, L, code = clua_code_known(L, -1));
    writer_byte(&writer, CLUA_TAG_END);
    if (!is_flat || writer.failed) {
        writer_free(&writer);
        return false;
    }
    writer_finish(&writer, parcel);
    parcel->value_count = 1;
    // A function with parameters gets its operation, through which it can reach functions of other operations.
    parcel->is_flat = code == NULL || !code->has_parameters;
    if (code != NULL) {
        clua_code_give(code);
        parcel->code = code;
    }
    return true;
}

bool encode_flat(lua_State *L, clua_parcel *parcel) {
    int type = lua_type(L, -1);
    if (type == LUA_TSTRING || type == LUA_TTABLE || type == LUA_TFUNCTION) return encode_with_writer(L, type, parcel);
    return encode_scalar(L, type, parcel);
}

// MARK: decoding

// Pushes a nil, a boolean or a number: nothing that may raise. Returns false for other values.
static bool push_scalar(lua_State *L, const clua_parcel *parcel) {
    if (parcel->has_block) return false;
    const uint8_t *bytes = (const uint8_t *)parcel->few + 1;
    uint64_t integer = 0;
    lua_Number number;
    switch (*bytes++) {
    case CLUA_TAG_NIL: lua_pushnil(L); return true;
    case CLUA_TAG_FALSE: lua_pushboolean(L, 0); return true;
    case CLUA_TAG_TRUE: lua_pushboolean(L, 1); return true;
    case CLUA_TAG_INTEGER:
        // The longest number has fewer bytes than a parcel without a block.
        for (int shift = 0; shift < 64; shift += 7) {
            integer |= (uint64_t)(*bytes & 0x7f) << shift;
            if (*bytes++ >= 0x80) continue;
            lua_pushinteger(L, (lua_Integer)((integer >> 1) ^ (~(integer & 1) + 1)));
            return true;
        }
        return false;
    case CLUA_TAG_FLOAT:
        memcpy(&number, bytes, sizeof number);
        lua_pushnumber(L, number);
        return true;
    default: return false;
    }
}

// Pushes the plain value whose tag follows.
static void push_plain(parcel_reader *reader) {
    uint8_t tag = reader_byte(reader);
    if (tag > CLUA_TAG_STRING) reader_malformed(reader);
    decode_plain(reader, tag);
}

static void push_flat_table(parcel_reader *reader) {
    lua_State *L = reader->L;
    uint32_t counts[2];
    memcpy(counts, reader_bytes(reader, sizeof counts), sizeof counts);
    if ((uint64_t)counts[0] + 2 * (uint64_t)counts[1] > reader_remaining(reader)) reader_malformed(reader);
    lua_createtable(L, (int)(counts[0] & INT32_MAX), (int)(counts[1] & INT32_MAX));
    int table = lua_gettop(L);
    for (uint32_t i = 1; i <= counts[0]; i++) {
        push_plain(reader);
        lua_rawseti(L, table, i);
    }
    for (uint32_t i = 0; i < counts[1]; i++) {
        push_plain(reader);
        push_plain(reader);
        lua_rawset(L, table);
    }
    if (reader_byte(reader) != CLUA_NO_METATABLE) reader_malformed(reader);
}

// Stack: the parcel as light userdata. Returns its value.
static int push_text_or_table(lua_State *L) {
    const clua_parcel *parcel = lua_touserdata(L, 1);
    const uint8_t *bytes = clua_parcel_bytes(parcel);
    parcel_reader reader = {.L = L, .next = bytes, .end = bytes + parcel->byte_count};
    reader_byte(&reader);  // the flags
    if (reader_peek(&reader) == CLUA_TAG_TABLE) {
        reader_byte(&reader);
        push_flat_table(&reader);
    } else {
        push_plain(&reader);
    }
    if (reader_byte(&reader) != CLUA_TAG_END) reader_malformed(&reader);
    return 1;
}

bool decode_flat(lua_State *L, const clua_parcel *parcel, int *status) {
    if (!parcel->is_flat || clua_parcel_code_count(parcel) > 0 || parcel->value_count != 1) return false;
    *status = LUA_OK;
    if (push_scalar(L, parcel)) return true;
    lua_pushcfunction(L, push_text_or_table);
    lua_pushlightuserdata(L, (void *)parcel);
    *status = lua_pcall(L, 1, 1, 0);
    return true;
}
