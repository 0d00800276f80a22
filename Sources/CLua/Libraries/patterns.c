#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // memmem
#endif
// `string.find`, `match`, `gmatch` and `gsub`, with the algorithms and the messages of Lua 5.4's lstrlib.c (MIT licence, Copyright (C)
// 1994-2022 Lua.org, PUC-Rio). They count their steps, so that they can be stopped.
#include <ctype.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>
#include <string.h>

#include "Libraries/bounded_raising.h"
#include "Libraries/matcher_raising.h"

#define SPECIALS "^$*+?.([%-"

enum { ESCAPE = '%' };

// MARK: find and match

static bool is_plain(const char *p, size_t length) {
    size_t checked = 0;
    do {
        if (strpbrk(p + checked, SPECIALS) != NULL) return false;
        checked += strlen(p + checked) + 1;
    } while (checked <= length);
    return true;
}

// As memmem, which needs linear time, but faster where candidates are rare.
static const char *find_plain(const char *s, size_t length, const char *wanted, size_t wanted_length) {
    if (wanted_length == 0) return s;
    if (wanted_length > length) return NULL;
    const char *end = s + length, *last = end - wanted_length;
    for (int candidates = 0; candidates < 64; candidates++) {
        s = memchr(s, *wanted, (size_t)(last - s) + 1);
        if (s == NULL || memcmp(s + 1, wanted + 1, wanted_length - 1) == 0) return s;
        if (++s > last) return NULL;
    }
    return memmem(s, (size_t)(end - s), wanted, wanted_length);
}

// The offset of a position, which may count from the end.
static size_t offset_of(lua_Integer position, size_t length) {
    if (position > 0) return (size_t)position - 1;
    if (position == 0 || position < -(lua_Integer)length) return 0;
    return length - (size_t)-position;
}

static int find_or_match(lua_State *L, bool finds) {
    size_t length, pattern_length;
    const char *s = luaL_checklstring(L, 1, &length);
    const char *p = luaL_checklstring(L, 2, &pattern_length);
    size_t first = offset_of(luaL_optinteger(L, 3, 1), length);
    if (first > length) {
        luaL_pushfail(L);
        return 1;
    }
    if (finds && (lua_toboolean(L, 4) || is_plain(p, pattern_length))) {
        clua_count(L, (length - first + pattern_length) / CLUA_BYTES_PER_STEP);
        const char *found = find_plain(s + first, length - first, p, pattern_length);
        if (found == NULL) {
            luaL_pushfail(L);
            return 1;
        }
        lua_pushinteger(L, found - s + 1);
        lua_pushinteger(L, found - s + (ptrdiff_t)pattern_length);
        return 2;
    }
    bool is_anchored = *p == '^';
    if (is_anchored) p++, pattern_length--;
    clua_matcher m;
    clua_matcher_prepare(&m, L, s, length, p, pattern_length);
    clua_matcher_resume(&m);
    const char *from, *matched = clua_matcher_search(&m, s + first, p, is_anchored, &from);
    clua_matcher_pause(&m);
    if (matched == NULL) {
        luaL_pushfail(L);
        return 1;
    }
    if (!finds) return clua_matcher_push_all(&m, from, matched);
    lua_pushinteger(L, from - s + 1);
    lua_pushinteger(L, matched - s);
    return clua_matcher_push_all(&m, NULL, NULL) + 2;
}

static int find(lua_State *L) { return find_or_match(L, true); }

static int match_string(lua_State *L) { return find_or_match(L, false); }

// MARK: gmatch

typedef struct iteration {
    const char *next;
    const char *pattern;
    const char *last_end;  // the end of the last match
    clua_matcher matcher;
} iteration;

// Upvalues: the subject and the pattern, which must stay alive; the iteration.
static int next_match(lua_State *L) {
    iteration *iteration = lua_touserdata(L, lua_upvalueindex(3));
    clua_matcher *m = &iteration->matcher;
    m->L = L;
    clua_matcher_resume(m);
    int count = 0;
    const char *s = iteration->next, *end;
    while (s <= m->end && (end = clua_matcher_search(m, s, iteration->pattern, false, &s)) != NULL) {
        if (end != iteration->last_end) {
            iteration->next = iteration->last_end = end;
            count = clua_matcher_push_all(m, s, end);
            break;
        }
        s++;  // an empty match where the last one ended
    }
    clua_matcher_pause(m);
    return count;
}

static int gmatch(lua_State *L) {
    size_t length, pattern_length;
    const char *s = luaL_checklstring(L, 1, &length);
    const char *p = luaL_checklstring(L, 2, &pattern_length);
    size_t first = offset_of(luaL_optinteger(L, 3, 1), length);
    if (first > length) first = length + 1;
    lua_settop(L, 2);
    iteration *iteration = lua_newuserdatauv(L, sizeof *iteration, 0);
    clua_matcher_prepare(&iteration->matcher, L, s, length, p, pattern_length);
    iteration->next = s + first;
    iteration->pattern = p;
    iteration->last_end = NULL;
    lua_pushcclosure(L, next_match, 3);
    return 1;
}

// MARK: gsub

// Adds the replacement string, in which `%0` to `%9` stand for captures.
static void add_template(clua_matcher *m, luaL_Buffer *buffer, const char *s, const char *end) {
    size_t length;
    const char *template = lua_tolstring(m->L, 3, &length), *p;
    m->steps_left -= (ptrdiff_t)(length / CLUA_BYTES_PER_STEP);  // the next call of `match` looks
    while ((p = memchr(template, ESCAPE, length)) != NULL) {
        luaL_addlstring(buffer, template, (size_t)(p - template));
        p++;
        if (*p == ESCAPE) {
            luaL_addchar(buffer, *p);
        } else if (*p == '0') {
            luaL_addlstring(buffer, s, (size_t)(end - s));
        } else if (isdigit((unsigned char)*p)) {
            const char *start;
            ptrdiff_t captured = clua_matcher_capture(m, *p - '1', s, end, &start);
            if (captured == CLUA_POSITION_CAPTURE)
                luaL_addvalue(buffer);
            else
                luaL_addlstring(buffer, start, (size_t)captured);
        } else {
            luaL_error(m->L, "invalid use of '%c' in replacement string", ESCAPE);
        }
        m->steps_left -= 1;
        length -= (size_t)(p + 1 - template);
        template = p + 1;
    }
    luaL_addlstring(buffer, template, length);
}

// Adds the replacement of the match from `s` to `end`. Returns false if the match replaces itself.
static bool add_replacement(clua_matcher *m, luaL_Buffer *buffer, const char *s, const char *end, int type) {
    lua_State *L = m->L;
    switch (type) {
    case LUA_TFUNCTION: {
        lua_pushvalue(L, 3);
        int count = clua_matcher_push_all(m, s, end);
        clua_matcher_pause(m);
        lua_call(L, count, 1);
        clua_matcher_resume(m);
        break;
    }
    case LUA_TTABLE:
        clua_matcher_push(m, 0, s, end);
        clua_matcher_pause(m);
        lua_gettable(L, 3);
        clua_matcher_resume(m);
        break;
    default: add_template(m, buffer, s, end); return true;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(buffer, s, (size_t)(end - s));
        return false;
    }
    if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(buffer);
    return true;
}

static int gsub(lua_State *L) {
    size_t length, pattern_length;
    const char *s = luaL_checklstring(L, 1, &length);
    const char *p = luaL_checklstring(L, 2, &pattern_length);
    int type = lua_type(L, 3);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1);
    luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                     "string/function/table");
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    bool is_anchored = *p == '^';
    if (is_anchored) p++, pattern_length--;
    clua_matcher m;
    clua_matcher_prepare(&m, L, s, length, p, pattern_length);
    clua_matcher_resume(&m);
    const char *last_end = NULL;
    lua_Integer replaced = 0;
    bool has_changed = false;
    while (replaced < most) {
        const char *start, *end = clua_matcher_search(&m, s, p, is_anchored, &start);
        if (end == NULL) break;
        luaL_addlstring(&buffer, s, (size_t)(start - s));
        s = start;
        if (end != last_end) {
            replaced++;
            has_changed |= add_replacement(&m, &buffer, s, end, type);
            s = last_end = end;
        } else if (s < m.end) {
            luaL_addchar(&buffer, *s++);  // an empty match where the last one ended
        } else {
            break;
        }
        if (is_anchored) break;
    }
    clua_matcher_pause(&m);
    if (has_changed) {
        luaL_addlstring(&buffer, s, (size_t)(m.end - s));
        luaL_pushresult(&buffer);
    } else {
        lua_pushvalue(L, 1);
    }
    lua_pushinteger(L, replaced);
    return 2;
}

void clua_open_patterns(lua_State *L) {
    static const luaL_Reg functions[] = {{"find", find}, {"match", match_string}, {"gmatch", gmatch}, {"gsub", gsub}, {NULL, NULL}};
    lua_getglobal(L, LUA_STRLIBNAME);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}
