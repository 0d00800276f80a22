// `string.rep` and `string.format`, with the algorithm and the messages of Lua 5.4's lstrlib.c (MIT licence, Copyright (C) 1994-2022 Lua.org,
// PUC-Rio). Lua's own `rep` repeats an empty string for centuries, and its `format` writes a million floats of 400 digits in one call.
#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "Libraries/bounded_raising.h"
#include "Limits/count_raising.h"

static int byte(char c) { return (unsigned char)c; }

// MARK: rep

enum { BYTES_PER_STEP = 16 };

static int repeat(lua_State *L) {
    size_t length, separator_length;
    const char *s = luaL_checklstring(L, 1, &length);
    lua_Integer n = luaL_checkinteger(L, 2);
    const char *separator = luaL_optlstring(L, 3, "", &separator_length);
    size_t unit = length + separator_length;
    if (n <= 0 || unit == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (unit < length || unit > (size_t)INT_MAX / (size_t)n) return luaL_error(L, "resulting string too large");
    size_t total = (size_t)n * unit - separator_length;
    luaL_Buffer buffer;
    char *result = luaL_buffinitsize(L, &buffer, total);
    memcpy(result, s, length);
    if (n > 1) {
        memcpy(result + length, separator, separator_length);
        // Copies the part that is already written. The part doubles each time, up to a size whose copy takes less than a millisecond.
        for (size_t done = unit, most = unit > 1 << 20 ? unit : 1 << 20; done < total;) {
            size_t count = done < most ? done : most / unit * unit;
            if (count > total - done) count = total - done;
            memcpy(result + done, result, count);
            done += count;
            clua_count(L, count / BYTES_PER_STEP);
        }
    }
    luaL_pushresultsize(&buffer, total);
    return 1;
}

// MARK: format

enum {
    ITEM_SIZE = 120,                         // of all items but those of '%f' and whole strings
    LONG_ITEM_SIZE = 110 + DBL_MAX_10_EXP,   // of '%.99f'
    SPECIFICATION_SIZE = 32,
    STEPS_PER_ITEM = 50,
    STEPS_PER_LONG_ITEM = 1000,
};

// Adds a string as Lua source code.
static void add_quoted(luaL_Buffer *buffer, const char *s, size_t length) {
    luaL_addchar(buffer, '"');
    for (const char *end = s + length; s < end; s++) {
        if (*s == '"' || *s == '\\' || *s == '\n') {
            luaL_addchar(buffer, '\\');
            luaL_addchar(buffer, *s);
        } else if (iscntrl(byte(*s))) {
            char escape[10];
            snprintf(escape, sizeof escape, isdigit(byte(s[1])) ? "\\%03d" : "\\%d", byte(*s));
            luaL_addstring(buffer, escape);
        } else {
            luaL_addchar(buffer, *s);
        }
    }
    luaL_addchar(buffer, '"');
}

// Writes a float as Lua source code, exactly.
static int write_float(char *item, lua_Number n) {
    if (n == (lua_Number)HUGE_VAL) return snprintf(item, ITEM_SIZE, "1e9999");
    if (n == -(lua_Number)HUGE_VAL) return snprintf(item, ITEM_SIZE, "-1e9999");
    if (n != n) return snprintf(item, ITEM_SIZE, "(0/0)");
    int count = snprintf(item, ITEM_SIZE, "%a", n);
    if (memchr(item, '.', (size_t)count) == NULL) {  // the locale may have another radix character
        char *point = memchr(item, localeconv()->decimal_point[0], (size_t)count);
        if (point != NULL) *point = '.';
    }
    return count;
}

static void add_literal(lua_State *L, luaL_Buffer *buffer, int arg) {
    switch (lua_type(L, arg)) {
    case LUA_TSTRING: {
        size_t length;
        const char *s = lua_tolstring(L, arg, &length);
        add_quoted(buffer, s, length);
        clua_count(L, length);
        break;
    }
    case LUA_TNUMBER: {
        char *item = luaL_prepbuffsize(buffer, ITEM_SIZE);
        int count;
        if (lua_isinteger(L, arg)) {
            lua_Integer n = lua_tointeger(L, arg);
            count = snprintf(item, ITEM_SIZE, n == LUA_MININTEGER ? "0x%" LUA_INTEGER_FRMLEN "x" : LUA_INTEGER_FMT, n);
        } else {
            count = write_float(item, lua_tonumber(L, arg));
        }
        luaL_addsize(buffer, (size_t)count);
        break;
    }
    case LUA_TNIL:
    case LUA_TBOOLEAN:
        luaL_tolstring(L, arg, NULL);
        luaL_addvalue(buffer);
        break;
    default: luaL_argerror(L, arg, "value has no literal form");
    }
}

static const char *skip_two_digits(const char *s) {
    if (isdigit(byte(*s))) s++;
    else return s;
    return isdigit(byte(*s)) ? s + 1 : s;
}

// Raises an error unless `form`, from '%' to the conversion, has only these flags, a width, and, if it may, a precision.
static void check_specification(lua_State *L, const char *form, const char *flags, int may_have_precision) {
    const char *rest = form + 1;
    rest += strspn(rest, flags);
    if (*rest != '0') {
        rest = skip_two_digits(rest);
        if (*rest == '.' && may_have_precision) rest = skip_two_digits(rest + 1);
    }
    if (!isalpha(byte(*rest))) luaL_error(L, "invalid conversion specification: '%s'", form);
}

// Copies the specification behind a '%' to `form`, with the '%'. Returns the place of its conversion.
static const char *get_specification(lua_State *L, const char *format, char *form) {
    size_t length = strspn(format, "-+#0 123456789.") + 1;
    if (length >= SPECIFICATION_SIZE - 10) luaL_error(L, "invalid format (too long)");
    *form++ = '%';
    memcpy(form, format, length);
    form[length] = '\0';
    return format + length - 1;
}

// Inserts a length modifier before the conversion.
static void add_modifier(char *form, const char *modifier) {
    size_t length = strlen(form), more = strlen(modifier);
    char conversion = form[length - 1];
    memcpy(form + length - 1, modifier, more);
    form[length + more - 1] = conversion;
    form[length + more] = '\0';
}

// Adds the argument at `arg` as `form` says. Returns the steps that this has taken.
static size_t add_item(lua_State *L, luaL_Buffer *buffer, char *form, char conversion, int arg) {
    int size = conversion == 'f' ? LONG_ITEM_SIZE : ITEM_SIZE, count = 0;
    char *item = luaL_prepbuffsize(buffer, (size_t)size);
    const char *flags;
    switch (conversion) {
    case 'c':
        check_specification(L, form, "-", 0);
        count = snprintf(item, (size_t)size, form, (int)luaL_checkinteger(L, arg));
        break;
    case 'd':
    case 'i': flags = "-+0 "; goto integer;
    case 'u': flags = "-0"; goto integer;
    case 'o':
    case 'x':
    case 'X':
        flags = "-#0";
    integer: {
        lua_Integer n = luaL_checkinteger(L, arg);
        check_specification(L, form, flags, 1);
        add_modifier(form, LUA_INTEGER_FRMLEN);
        count = snprintf(item, (size_t)size, form, n);
        break;
    }
    case 'a':
    case 'A':
        check_specification(L, form, "-+#0 ", 1);
        count = snprintf(item, (size_t)size, form, luaL_checknumber(L, arg));
        break;
    case 'f':
    case 'e':
    case 'E':
    case 'g':
    case 'G': {
        lua_Number n = luaL_checknumber(L, arg);
        check_specification(L, form, "-+#0 ", 1);
        count = snprintf(item, (size_t)size, form, n);
        luaL_addsize(buffer, (size_t)count);
        return fabs(n) < 1e15 && fabs(n) > 1e-5 ? STEPS_PER_ITEM : STEPS_PER_LONG_ITEM;
    }
    case 'p': {
        const void *address = lua_topointer(L, arg);
        check_specification(L, form, "-", 0);
        if (address == NULL) {
            address = "(null)";
            form[strlen(form) - 1] = 's';
        }
        count = snprintf(item, (size_t)size, form, address);
        break;
    }
    case 'q':
        if (form[2] != '\0') luaL_error(L, "specifier '%%q' cannot have modifiers");
        add_literal(L, buffer, arg);
        break;
    case 's': {
        size_t length;
        const char *s = luaL_tolstring(L, arg, &length);
        if (form[2] == '\0') {
            luaL_addvalue(buffer);
            return length / BYTES_PER_STEP;
        }
        luaL_argcheck(L, length == strlen(s), arg, "string contains zeros");
        check_specification(L, form, "-", 1);
        if (strchr(form, '.') == NULL && length >= 100) {
            luaL_addvalue(buffer);
        } else {
            count = snprintf(item, (size_t)size, form, s);
            lua_pop(L, 1);
        }
        clua_count(L, length / BYTES_PER_STEP);
        break;
    }
    default: luaL_error(L, "invalid conversion '%s' to 'format'", form);
    }
    luaL_addsize(buffer, (size_t)count);
    return STEPS_PER_ITEM;
}

static int format(lua_State *L) {
    int top = lua_gettop(L), arg = 1;
    size_t length;
    const char *s = luaL_checklstring(L, 1, &length), *end = s + length;
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    while (s < end) {
        if (*s != '%') {
            luaL_addchar(&buffer, *s++);
        } else if (*++s == '%') {
            luaL_addchar(&buffer, *s++);
        } else {
            char form[SPECIFICATION_SIZE];
            if (++arg > top) return luaL_argerror(L, arg, "no value");
            s = get_specification(L, s, form);
            char conversion = *s++;
            clua_count(L, add_item(L, &buffer, form, conversion, arg));
        }
    }
    luaL_pushresult(&buffer);
    return 1;
}

void clua_open_strings(lua_State *L) {
    static const luaL_Reg functions[] = {{"rep", repeat}, {"format", format}, {NULL, NULL}};
    lua_getglobal(L, LUA_STRLIBNAME);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}
