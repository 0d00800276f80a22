#include <locale.h>
#include <lua5.4/lauxlib.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Limits/count_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/json_raising.h"
#include "Transfer/parcel_path.h"

typedef struct writer {
    lua_State *L;
    char *bytes;  // a userdata, which is kept at the stack index `anchor`
    size_t count, capacity;
    int anchor;
    bool is_pretty;
} writer;

// The place of a value, for errors.
typedef struct place {
    const path_step *step;
    int depth;
} place;

static void write_value(writer *out, place place);

// MARK: bytes

static char *reserve(writer *out, size_t count) {
    if (out->capacity - out->count < count) {
        size_t capacity = 2 * out->capacity + count;
        char *bytes = lua_newuserdatauv(out->L, capacity, 0);
        if (out->count > 0) memcpy(bytes, out->bytes, out->count);
        lua_replace(out->L, out->anchor);
        out->bytes = bytes;
        out->capacity = capacity;
    }
    return out->bytes + out->count;
}

static void add(writer *out, const char *bytes, size_t count) {
    memcpy(reserve(out, count), bytes, count);
    out->count += count;
}

static void add_byte(writer *out, char byte) {
    *reserve(out, 1) = byte;
    out->count++;
}

static void begin_line(writer *out, int depth) {
    if (!out->is_pretty) return;
    char *bytes = reserve(out, 1 + 2 * (size_t)depth);
    *bytes = '\n';
    memset(bytes + 1, ' ', 2 * (size_t)depth);
    out->count += 1 + 2 * (size_t)depth;
}

static void refuse(writer *out, place place, const char *what) {
    luaL_checkstack(out->L, LUA_MINSTACK, NULL);
    path_push_name(out->L, place.step);
    luaL_error(out->L, "cannot encode %s (%s)", lua_tostring(out->L, -1), what);
}

// MARK: plain values

static void add_escape(writer *out, unsigned char byte) {
    static const char specials[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", digits[] = "0123456789abcdef";
    const char *found = byte != 0 ? strchr(specials, byte) : NULL;
    char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    if (found != NULL) escape[1] = letters[found - specials];
    add(out, escape, found != NULL ? 2 : sizeof escape);
}

// Adds the string at `index`.
static void add_string(writer *out, place place, int index) {
    size_t count;
    const char *text = lua_tolstring(out->L, index, &count), *end = text + count, *start = text;
    add_byte(out, '"');
    for (const char *p = json_skip_plain(text, end); p < end; p = json_skip_plain(p, end)) {
        unsigned char byte = (unsigned char)*p;
        int sequence = byte < 0x80 ? 1 : json_sequence((const unsigned char *)p);
        if (sequence == 0) refuse(out, place, lua_pushfstring(out->L, "invalid UTF-8 in byte %d of a string", (int)(p - text) + 1));
        p += sequence;
        if (byte >= 0x80) continue;
        add(out, start, (size_t)(p - 1 - start));
        add_escape(out, byte);
        start = p;
    }
    add(out, start, (size_t)(end - start));
    add_byte(out, '"');
    clua_count(out->L, count / 16);
}

static void add_integer(writer *out, lua_Integer value) {
    char digits[24], *p = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--p = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0) *--p = '-';
    add(out, p, (size_t)(digits + sizeof digits - p));
}

// The number without its fraction when it has so many decimals more. Rounds correctly. The size is that of print_digits.
static uint64_t scale(double size, int decimals) {
    int exponent;
    unsigned __int128 exact = (uint64_t)(frexp(size, &exponent) * 0x1p53);
    for (int i = 0; i < decimals; i++) exact *= 5;
    int shift = 53 - exponent - decimals;
    return (uint64_t)(shift > 0 ? (exact + ((unsigned __int128)1 << (shift - 1))) >> shift : exact << -shift);
}

// Writes a number from 1e-5 to 1e15 with up to 15 digits if these give it again, and otherwise with 17, which always do. Returns the length.
static int print_digits(char text[40], double value) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20};
    double size = fabs(value);
    int decimals = 14 - (int)floor(log10(size));
    if (decimals < 0) decimals = 0;  // the logarithm of a number just below 1e15 is rounded up
    uint64_t digits = (uint64_t)nearbyint(size * powers[decimals]);
    // Both sides of the division are exact, as when the text is read.
    bool are_enough = (double)digits / powers[decimals] == size;
    if (!are_enough) {
        for (decimals += 2; (digits = scale(size, decimals)) < UINT64_C(10000000000000000);) decimals++;
    }
    for (; decimals > 1 && digits % 10 == 0; decimals--) digits /= 10;
    if (decimals == 0) {
        decimals = 1;
        digits *= 10;
    }
    char *p = text + 40;
    for (int i = 0; i <= decimals || digits > 0; i++, digits /= 10) {
        if (i == decimals) *--p = '.';
        *--p = (char)('0' + digits % 10);
    }
    if (value < 0) *--p = '-';
    int count = (int)(text + 40 - p);
    memmove(text, p, (size_t)count);
    return count;
}

static void add_float(writer *out, place place, double value) {
    if (!isfinite(value)) refuse(out, place, isnan(value) ? "not a number" : "an infinite number");
    char text[40];
    bool is_usual = fabs(value) >= 1e-5 && fabs(value) < 1e15;
    int count = is_usual ? print_digits(text, value) : snprintf(text, sizeof text, "%.15g", value);
    if (!is_usual && strtod(text, NULL) != value) count = snprintf(text, sizeof text, "%.17g", value);
    char point = *localeconv()->decimal_point, *found = is_usual || point == '.' ? NULL : memchr(text, point, (size_t)count);
    if (found != NULL) *found = '.';
    add(out, text, (size_t)count);
    if (memchr(text, '.', (size_t)count) == NULL && memchr(text, 'e', (size_t)count) == NULL) add(out, ".0", 2);
}

// MARK: tables

// Adds the elements of the table on top.
static void add_array(writer *out, place place) {
    lua_State *L = out->L;
    int table = lua_gettop(L);
    lua_Integer elements = (lua_Integer)lua_rawlen(L, table), count = 0;
    lua_pushnil(L);
    for (; lua_next(L, table); count++) {
        lua_pop(L, 1);
        if (!lua_isinteger(L, -1)) refuse(out, place, "a table with elements and other fields");
        lua_Integer key = lua_tointeger(L, -1);
        if (key < 1 || key > elements) refuse(out, place, "an array with holes");
    }
    if (count != elements) refuse(out, place, "an array with holes");
    add_byte(out, '[');
    for (lua_Integer i = 1; i <= elements; i++) {
        path_step step = {.parent = place.step, .kind = PATH_ELEMENT, .number = i};
        if (i > 1) add_byte(out, ',');
        begin_line(out, place.depth + 1);
        lua_rawgeti(L, table, i);
        write_value(out, (struct place){&step, place.depth + 1});
        lua_pop(L, 1);
    }
    if (elements > 0) begin_line(out, place.depth);
    add_byte(out, ']');
}

// Adds the field whose key and value are on top.
static void add_field(writer *out, place place, bool is_first) {
    lua_State *L = out->L;
    if (lua_type(L, -2) != LUA_TSTRING) refuse(out, place, lua_pushfstring(L, "a table with a key that is a %s", luaL_typename(L, -2)));
    size_t count;
    const char *key = lua_tolstring(L, -2, &count);
    path_step step = {.parent = place.step, .kind = PATH_FIELD, .text = key, .number = (lua_Integer)count};
    struct place inner = {&step, place.depth + 1};
    if (!is_first) add_byte(out, ',');
    begin_line(out, inner.depth);
    add_string(out, inner, -2);
    add(out, ": ", out->is_pretty ? 2 : 1);
    write_value(out, inner);
}

typedef struct key {
    const char *text;
    size_t count;
} key;

static int compare(const void *one, const void *other) {
    const key *left = one, *right = other;
    int order = memcmp(left->text, right->text, left->count < right->count ? left->count : right->count);
    return order != 0 ? order : (left->count > right->count) - (left->count < right->count);
}

// Adds the fields of the table at `table` in the order of their keys. The table keeps the keys' texts.
static void add_sorted_fields(writer *out, place place, int table) {
    lua_State *L = out->L;
    size_t count = 0, filled = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) count++;
    key *keys = lua_newuserdatauv(L, count * sizeof *keys, 1);
    // A finalizer may have changed the table. The list keeps the texts of the keys.
    lua_createtable(L, (int)(count & INT32_MAX), 0);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, -3, 1);
    int list = lua_gettop(L);
    for (lua_pushnil(L); filled < count && lua_next(L, table); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) add_field(out, place, true);  // refuses it
        lua_pushvalue(L, -2);
        lua_rawseti(L, list, (lua_Integer)filled + 1);
        keys[filled].text = lua_tolstring(L, -2, &keys[filled].count);
        filled++;
    }
    qsort(keys, filled, sizeof *keys, compare);
    clua_count(L, 16 * filled);
    for (size_t i = 0; i < filled; i++) {
        lua_pushlstring(L, keys[i].text, keys[i].count);
        lua_pushvalue(L, -1);
        lua_rawget(L, table);
        add_field(out, place, i == 0);
        lua_pop(L, 2);
    }
    lua_pop(L, 2);
}

static bool is_marked(lua_State *L, int table) {
    if (!lua_getmetatable(L, table)) return false;
    clua_push_kept(L, CLUA_KEPT_JSON_ARRAY);
    bool is_marked = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is_marked;
}

// Adds the table on top.
static void add_table(writer *out, place place) {
    lua_State *L = out->L;
    int table = lua_gettop(L);
    if (place.depth == JSON_MOST_DEPTH)
        luaL_error(L, "cannot encode argument 1 (more than 1000 values inside each other; perhaps a table contains itself)");
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    lua_pushnil(L);
    bool is_empty = !lua_next(L, table), is_array = is_marked(L, table) || (!is_empty && lua_type(L, table + 1) == LUA_TNUMBER);
    lua_settop(L, table);
    if (is_array) return add_array(out, place);
    add_byte(out, '{');
    if (out->is_pretty && !is_empty) {
        add_sorted_fields(out, place, table);
        begin_line(out, place.depth);
    } else {
        bool is_first = true;
        for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1), is_first = false) add_field(out, place, is_first);
    }
    add_byte(out, '}');
}

// MARK: values

// Adds the value on top.
static void write_value(writer *out, place place) {
    lua_State *L = out->L;
    clua_count(L, 1);
    switch (lua_type(L, -1)) {
    case LUA_TNIL: add(out, "null", 4); break;
    case LUA_TBOOLEAN: lua_toboolean(L, -1) ? add(out, "true", 4) : add(out, "false", 5); break;
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1))
            add_integer(out, lua_tointeger(L, -1));
        else
            add_float(out, place, lua_tonumber(L, -1));
        break;
    case LUA_TSTRING: add_string(out, place, -1); break;
    case LUA_TTABLE: add_table(out, place); break;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, -1) != &json_null) refuse(out, place, "a light userdata");
        add(out, "null", 4);
        break;
    case LUA_TUSERDATA:
        if (clua_to_frozen(L, -1) != NULL) {
            luaL_checkstack(L, LUA_MINSTACK, NULL);
            lua_pushcfunction(L, clua_thaw_here);
            lua_pushvalue(L, -2);
            lua_call(L, 1, 1);
            add_table(out, place);
            lua_pop(L, 1);
            break;
        }
        refuse(out, place, "a userdata");
        break;
    default: refuse(out, place, lua_pushfstring(L, "a %s", luaL_typename(L, -1)));
    }
}

// `opscript.json.encode(value, [options])`
int json_encode(lua_State *L) {
    enum { VALUE = 1, OPTIONS, BYTES };
    luaL_checkany(L, VALUE);
    writer out = {.L = L, .anchor = BYTES, .is_pretty = clua_boolean_option(L, "pretty", false)};
    lua_settop(L, OPTIONS);
    lua_pushnil(L);
    reserve(&out, 1000);
    lua_pushvalue(L, VALUE);
    static const path_step root = {.kind = PATH_ARGUMENT, .number = 1};
    write_value(&out, (place){&root, 0});
    lua_pushlstring(L, out.bytes, out.count);
    return 1;
}
