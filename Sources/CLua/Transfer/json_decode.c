#include <lua5.4/lauxlib.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Limits/count_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/json_raising.h"

// A zero follows the text, so looking at the byte after it is safe.
typedef struct reader {
    lua_State *L;
    const char *start, *at, *end;
    char *unescaped;  // memory for strings with escapes, once one was met
    int anchor;       // the stack index that keeps it
    bool is_frozen;
} reader;

static void read_value(reader *in, int depth);

// Raises an error with the place in the text.
static void refuse(reader *in, const char *problem) {
    const char *line = in->start;
    lua_Integer number = 1;
    for (const char *p = in->start; p < in->at; p++) {
        if (*p != '\n') continue;
        number++;
        line = p + 1;
    }
    luaL_error(in->L, "invalid JSON in line %I, column %I: %s", (LUAI_UACINT)number, (LUAI_UACINT)(in->at - line + 1), problem);
}

static void refuse_unless(reader *in, bool is_right, const char *expected) {
    if (is_right) return;
    if (in->at == in->end) refuse(in, lua_pushfstring(in->L, "%s expected, got the end", expected));
    unsigned char byte = (unsigned char)*in->at;
    if (byte < ' ' || byte > '~') refuse(in, lua_pushfstring(in->L, "%s expected, got the byte %d", expected, byte));
    refuse(in, lua_pushfstring(in->L, "%s expected, got '%c'", expected, byte));
}

static void skip_space(reader *in) {
    while (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r') in->at++;
}

// MARK: strings

// Reads four hexadecimal digits.
static unsigned read_digits(reader *in) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        char digit = *in->at;
        bool is_number = digit >= '0' && digit <= '9';
        char letter = (char)(digit | 0x20);
        refuse_unless(in, is_number || (letter >= 'a' && letter <= 'f'), "a hexadecimal digit");
        value = value << 4 | (unsigned)(is_number ? digit - '0' : letter - 'a' + 10);
    }
    return value;
}

// Reads the character of an escape with `u`.
static char *read_character(reader *in, char *out) {
    const char *start = in->at - 2;
    unsigned code = read_digits(in);
    if (code >= 0xd800 && code < 0xe000) {
        bool is_pair = code < 0xdc00 && in->at[0] == '\\' && in->at[1] == 'u';
        in->at += is_pair ? 2 : 0;
        unsigned low = is_pair ? read_digits(in) : 0;
        if (low < 0xdc00 || low >= 0xe000) {
            in->at = start;
            refuse(in, "half of a surrogate pair");
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char firsts[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(firsts[more] | code >> 6 * more);
    while (more-- > 0) *out++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return out;
}

static char *read_escape(reader *in, char *out) {
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char kind = *++in->at;
    const char *found = kind != '\0' ? strchr(escapes, kind) : NULL;
    refuse_unless(in, found != NULL || kind == 'u', "an escape character");
    in->at++;
    if (found == NULL) return read_character(in, out);
    *out = meanings[found - escapes];
    return out + 1;
}

// Pushes the string whose quote is next.
static void read_string(reader *in) {
    const char *start = ++in->at, *begin = start;
    char *out = NULL;
    for (;;) {
        in->at = json_skip_plain(in->at, in->end);
        unsigned char byte = (unsigned char)*in->at;
        if (byte >= 0x80) {
            int count = json_sequence((const unsigned char *)in->at);
            if (count == 0) refuse(in, "invalid UTF-8");
            in->at += count;
            continue;
        }
        if (byte == '"' && out == NULL) break;
        if (byte < ' ') refuse_unless(in, false, in->at == in->end ? "'\"'" : "an escape for a control character");
        if (in->unescaped == NULL) {
            // No escape is shorter than its meaning.
            in->unescaped = lua_newuserdatauv(in->L, (size_t)(in->end - start), 0);
            lua_replace(in->L, in->anchor);
        }
        if (out == NULL) out = in->unescaped;
        memcpy(out, start, (size_t)(in->at - start));
        out += in->at - start;
        if (byte == '"') break;
        out = read_escape(in, out);
        start = in->at;
    }
    if (out == NULL)
        lua_pushlstring(in->L, begin, (size_t)(in->at - begin));
    else
        lua_pushlstring(in->L, in->unescaped, (size_t)(out - in->unescaped));
    clua_count(in->L, (size_t)(in->at - begin) / 16);
    in->at++;
}

// MARK: numbers

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Reads digits into `value`, and returns how many there were. `fits` becomes false if the value is too large.
static int skip_digits(reader *in, uint64_t *value, bool *fits) {
    const char *start = in->at;
    refuse_unless(in, is_digit(*in->at), "a digit");
    for (; is_digit(*in->at); in->at++)
        *fits &= !__builtin_mul_overflow(*value, 10, value) && !__builtin_add_overflow(*value, (uint64_t)(*in->at - '0'), value);
    return (int)(in->at - start);
}

// Pushes a number whose digits are correct, rounded as Lua does.
static void push_rounded(reader *in, const char *start) {
    lua_pushlstring(in->L, start, (size_t)(in->at - start));
    bool is_number = lua_stringtonumber(in->L, lua_tostring(in->L, -1)) != 0;
    if (is_number) lua_remove(in->L, -2);
    if (!is_number || !isfinite(lua_tonumber(in->L, -1))) {
        in->at = start;
        refuse(in, "a number that is too large");
    }
}

static void read_number(reader *in) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *start = in->at;
    bool is_negative = *in->at == '-', fits = true, exponent_fits = true;
    in->at += is_negative;
    uint64_t value = 0, exponent = 0;
    if (*in->at == '0')
        in->at++;
    else
        skip_digits(in, &value, &fits);
    if (*in->at != '.' && *in->at != 'e' && *in->at != 'E' && (value != 0 || !is_negative)) {
        if (is_digit(*in->at)) refuse(in, "a number must not begin with 0");
        if (!fits || value > (uint64_t)INT64_MAX + is_negative) return push_rounded(in, start);
        lua_pushinteger(in->L, is_negative ? (lua_Integer)(0 - value) : (lua_Integer)value);
        return;
    }
    int fraction = 0;
    if (*in->at == '.') {
        in->at++;
        fraction = skip_digits(in, &value, &fits);
    }
    bool is_negative_exponent = false;
    if (*in->at == 'e' || *in->at == 'E') {
        in->at++;
        is_negative_exponent = *in->at == '-';
        if (*in->at == '+' || *in->at == '-') in->at++;
        skip_digits(in, &exponent, &exponent_fits);
    }
    if (is_digit(*in->at)) refuse(in, "a number must not begin with 0");
    // Both numbers are exact, so the result is the nearest one.
    if (fits && value <= UINT64_C(1) << 53 && exponent <= 22 && exponent_fits && fraction <= 22) {
        int scale = (is_negative_exponent ? -(int)exponent : (int)exponent) - fraction;
        if (scale >= -22 && scale <= 22) {
            double number = scale < 0 ? (double)value / powers[-scale] : (double)value * powers[scale];
            lua_pushnumber(in->L, is_negative ? -number : number);
            return;
        }
    }
    push_rounded(in, start);
    // Lua takes a number without a dot and an exponent for an integer.
    if (lua_isinteger(in->L, -1)) {
        lua_pushnumber(in->L, is_negative ? -lua_tonumber(in->L, -1) : lua_tonumber(in->L, -1));
        lua_remove(in->L, -2);
    }
}

// MARK: values

static void read_object(reader *in, int depth) {
    lua_newtable(in->L);
    in->at++;
    skip_space(in);
    if (*in->at == '}') {
        in->at++;
        return;
    }
    for (;; in->at++, skip_space(in)) {
        refuse_unless(in, *in->at == '"', "a key in quotes");
        read_string(in);
        skip_space(in);
        refuse_unless(in, *in->at == ':', "':'");
        in->at++;
        read_value(in, depth + 1);
        lua_rawset(in->L, -3);
        if (*in->at == '}') break;
        refuse_unless(in, *in->at == ',', "',' or '}'");
    }
    in->at++;
}

static void read_array(reader *in, int depth) {
    in->at++;
    skip_space(in);
    if (*in->at == ']') {
        if (!in->is_frozen) lua_newtable(in->L);
        clua_push_kept(in->L, CLUA_KEPT_JSON_ARRAY);
        if (!in->is_frozen) lua_setmetatable(in->L, -2);
        in->at++;
        return;
    }
    lua_newtable(in->L);
    for (lua_Integer i = 1;; i++, in->at++) {
        read_value(in, depth + 1);
        lua_rawseti(in->L, -2, i);
        if (*in->at == ']') break;
        refuse_unless(in, *in->at == ',', "',' or ']'");
    }
    in->at++;
}

static bool skip_word(reader *in, const char *word) {
    size_t count = strlen(word);
    if (strncmp(in->at, word, count) != 0) return false;
    in->at += count;
    return true;
}

// Pushes the value that is next, and skips the space around it.
static void read_value(reader *in, int depth) {
    lua_State *L = in->L;
    clua_count(L, 1);
    skip_space(in);
    switch (*in->at) {
    case '{':
    case '[':
        if (depth == JSON_MOST_DEPTH) refuse(in, "more than 1000 values inside each other");
        luaL_checkstack(L, LUA_MINSTACK, NULL);
        if (*in->at == '{')
            read_object(in, depth);
        else
            read_array(in, depth);
        break;
    case '"': read_string(in); break;
    case 't':
    case 'f':
    case 'n':
        if (skip_word(in, "true"))
            lua_pushboolean(L, 1);
        else if (skip_word(in, "false"))
            lua_pushboolean(L, 0);
        else if (skip_word(in, "null"))
            lua_pushlightuserdata(L, (void *)&json_null);
        else
            refuse_unless(in, false, "a value");
        break;
    default:
        refuse_unless(in, is_digit(*in->at) || *in->at == '-', "a value");
        read_number(in);
    }
    skip_space(in);
}

// `opscript.json.decode(text, [options])`
int json_decode(lua_State *L) {
    enum { TEXT = 1, OPTIONS, UNESCAPED };
    size_t count;
    const char *text = luaL_checklstring(L, TEXT, &count);
    reader in = {.L = L, .start = text, .at = text, .end = text + count, .anchor = UNESCAPED, .is_frozen = clua_boolean_option(L, "frozen", false)};
    lua_settop(L, OPTIONS);
    lua_pushnil(L);
    read_value(&in, 0);
    refuse_unless(&in, in.at == in.end, "the end");
    if (!in.is_frozen || !lua_istable(L, -1)) return 1;
    lua_pushcfunction(L, clua_freeze_here);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    return 1;
}
