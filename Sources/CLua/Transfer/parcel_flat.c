#include "Transfer/parcel_flat.h"

#include "Libraries/modules_raising.h"
#include "Transfer/code.h"
#include "Transfer/parcel_writer.h"
#include "Transfer/shared_string.h"

// All these functions return false, and change nothing but the writer, if a value is not flat.

static bool write_flat(parcel_writer *writer, lua_State *L, int type) {
    size_t count;
    const char *bytes;
    switch (type) {
    case LUA_TNIL: writer_byte(writer, CLUA_TAG_NIL); return true;
    case LUA_TBOOLEAN: writer_byte(writer, lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE); return true;
    case LUA_TNUMBER: write_number(writer, L); return true;
    case LUA_TSTRING:
        bytes = lua_tolstring(L, -1, &count);
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

// Writes a function of known code whose upvalues are flat. Such a function uses no globals, since `_ENV` is a
// table and not flat.
static bool write_flat_function(parcel_writer *writer, lua_State *L, clua_code *code) {
    enum { MAX_UPVALUES = 8 };
    if (code == NULL || code->upvalue_count > MAX_UPVALUES) return false;
    writer_byte(writer, CLUA_TAG_FUNCTION);
    writer_varint(writer, 0);
    int function = lua_gettop(L);
    for (int i = 1; i <= code->upvalue_count; i++) {
        if (!is_first_of_its_cell(L, function, i)) return false;
        lua_getupvalue(L, function, i);
        bool is_flat = write_flat(writer, L, lua_type(L, -1));
        lua_pop(L, 1);
        if (!is_flat) return false;
    }
    return true;
}

// Writes a nil, a boolean or a number into the parcel without a writer.
static bool encode_scalar(lua_State *L, int type, clua_parcel *parcel) {
    uint8_t *bytes = (uint8_t *)parcel->few;
    size_t count = 1;
    switch (type) {
    case LUA_TNIL: bytes[1] = CLUA_TAG_NIL; break;
    case LUA_TBOOLEAN: bytes[1] = lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE; break;
    case LUA_TNUMBER: count = put_number(bytes + 1, L); break;
    default: return false;
    }
    bytes[0] = 0;
    bytes[1 + count] = CLUA_TAG_END;
    parcel->byte_count = count + 2;
    parcel->value_count = 1;
    parcel->is_flat = true;
    return true;
}

static bool encode_text_or_function(lua_State *L, int type, clua_parcel *parcel) {
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, 0);
    clua_code *code = NULL;
    bool is_flat;
    if (type != LUA_TFUNCTION)
        is_flat = write_flat(&writer, L, type);
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
    // A function with parameters gets its operation, and through it can reach functions of others.
    parcel->is_flat = code == NULL || !code->has_parameters;
    if (code != NULL) {
        clua_code_give(code);
        parcel->code = code;
    }
    return true;
}

bool encode_flat(lua_State *L, clua_parcel *parcel) {
#if WITHOUT_FLAT_PARCELS
    return false;
#endif
    int type = lua_type(L, -1);
    if (type == LUA_TSTRING || type == LUA_TFUNCTION) return encode_text_or_function(L, type, parcel);
    return encode_scalar(L, type, parcel);
}
