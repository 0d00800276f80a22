#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // memmem
#endif
// `string.find`, `match`, `gmatch` and `gsub`, with the algorithm and the messages of Lua 5.4's lstrlib.c (MIT licence, Copyright (C)
// 1994-2022 Lua.org, PUC-Rio). Lua's own cannot be stopped, and backtracking may take longer than anybody lives. These count their steps.
#include <ctype.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>
#include <string.h>

#include "Libraries/bounded_raising.h"
#include "Limits/count_raising.h"

#define SPECIALS "^$*+?.([%-"

enum {
    ESCAPE = '%',
    MAX_CAPTURES = 32,
    MAX_DEPTH = 200,          // nested calls of `match`
    OPEN_CAPTURE = -1,        // lengths of captures that have no length
    POSITION_CAPTURE = -2,
    LONG_SET = 32,            // bytes; the steps of longer sets are counted one by one
    ITEMS_PER_STEP = 4,       // items without a repetition
    COMPARED_PER_STEP = 16,   // bytes that memcmp and similar functions handle in the time of a step
};

typedef struct matcher {
    const char *start, *end;  // the subject
    const char *pattern_end;
    lua_State *L;
    ptrdiff_t steps_left;     // the state's, while the matcher works
    int depth_left;
    unsigned char capture_count;
    struct {
        const char *start;
        ptrdiff_t length;
    } captures[MAX_CAPTURES];
} matcher;

static const char *match(matcher *m, const char *s, const char *p);

static int byte(char c) { return (unsigned char)c; }

// MARK: counting

static void begin_counting(matcher *m) { m->steps_left = clua_state_of(m->L)->stop.steps_left; }

static void end_counting(matcher *m) { clua_state_of(m->L)->stop.steps_left = m->steps_left; }

__attribute__((noinline, cold)) static void look(matcher *m) {
    end_counting(m);
    clua_look(m->L);
    begin_counting(m);
}

static inline void count(matcher *m, ptrdiff_t steps) {
    if (__builtin_expect((m->steps_left -= steps) < 0, 0)) look(m);
}

// MARK: single characters

// Returns the place behind the item at `p`, without its suffix.
static const char *item_end(matcher *m, const char *p) {
    char first = *p++;
    if (first != ESCAPE && first != '[') return p;
    if (first == ESCAPE) {
        if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 1;
    }
    if (*p == '^') p++;
    const char *set = p;
    do {  // a ']' that comes first belongs to the set
        if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p++ == ESCAPE && p < m->pattern_end) p++;
    } while (*p != ']');
    count(m, p - set);
    return p + 1;
}

static int is_in_class(int c, int class) {  // not bool: the conversion would cost more than the test
    int is_in;
    switch (tolower(class)) {
    case 'a': is_in = isalpha(c); break;
    case 'c': is_in = iscntrl(c); break;
    case 'd': is_in = isdigit(c); break;
    case 'g': is_in = isgraph(c); break;
    case 'l': is_in = islower(c); break;
    case 'p': is_in = ispunct(c); break;
    case 's': is_in = isspace(c); break;
    case 'u': is_in = isupper(c); break;
    case 'w': is_in = isalnum(c); break;
    case 'x': is_in = isxdigit(c); break;
    case 'z': is_in = c == 0; break;  // deprecated, but still there
    default: return class == c;
    }
    return islower(class) ? is_in : !is_in;
}

// Whether `c` is in the set from the '[' at `p` to the ']' at `last`.
static bool is_in_set(int c, const char *p, const char *last) {
    bool is_listed = true;
    if (p[1] == '^') {
        is_listed = false;
        p++;
    }
    while (++p < last) {
        if (*p == ESCAPE) {
            p++;
            if (is_in_class(c, byte(*p))) return is_listed;
        } else if (p[1] == '-' && p + 2 < last) {
            p += 2;
            if (byte(p[-2]) <= c && c <= byte(*p)) return is_listed;
        } else if (byte(*p) == c) {
            return is_listed;
        }
    }
    return !is_listed;
}

// Whether the character at `s` matches the item from `p` to `end`.
static inline int matches_item(matcher *m, const char *s, const char *p, const char *end) {
    if (s >= m->end) return false;
    int c = byte(*s);
    switch (*p) {
    case '.': return true;
    case ESCAPE: return is_in_class(c, byte(p[1]));
    case '[': return is_in_set(c, p, end - 1);
    default: return byte(*p) == c;
    }
}

// MARK: items

static const char *match_balanced(matcher *m, const char *s, const char *p) {
    if (p >= m->pattern_end - 1) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    if (*s != *p) return NULL;
    char open = p[0], close = p[1];
    const char *first = s;
    ptrdiff_t depth = 1;
    while (++s < m->end) {
        if (*s == close) {
            if (--depth == 0) break;
        } else if (*s == open) {
            depth++;
        }
    }
    count(m, s - first);
    return s < m->end ? s + 1 : NULL;
}

static const char *match_most(matcher *m, const char *s, const char *p, const char *end) {
    const char *last = s;
    if (*p == '.') {
        last = m->end;
    } else if (*p == '[' && end - p > LONG_SET) {
        for (; matches_item(m, last, p, end); last++) count(m, end - p);
    } else {
        while (matches_item(m, last, p, end)) last++;
        count(m, (ptrdiff_t)((size_t)(last - s) / ITEMS_PER_STEP));
    }
    for (; last >= s; last--) {
        const char *matched = match(m, last, end + 1);
        if (matched != NULL) return matched;
    }
    return NULL;
}

static const char *match_least(matcher *m, const char *s, const char *p, const char *end) {
    for (;;) {
        const char *matched = match(m, s, end + 1);
        if (matched != NULL) return matched;
        if (!matches_item(m, s, p, end)) return NULL;
        s++;
        count(m, (ptrdiff_t)((size_t)(end - p) / ITEMS_PER_STEP));
    }
}

// MARK: captures

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t length) {
    if (m->capture_count >= MAX_CAPTURES) luaL_error(m->L, "too many captures");
    m->captures[m->capture_count].start = s;
    m->captures[m->capture_count].length = length;
    m->capture_count++;
    const char *matched = match(m, s, p);
    if (matched == NULL) m->capture_count--;
    return matched;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
    int i = m->capture_count;
    do {
        if (--i < 0) luaL_error(m->L, "invalid pattern capture");
    } while (m->captures[i].length != OPEN_CAPTURE);
    m->captures[i].length = s - m->captures[i].start;
    const char *matched = match(m, s, p);
    if (matched == NULL) m->captures[i].length = OPEN_CAPTURE;
    return matched;
}

// Matches what the capture with the given digit has matched. A position capture matches nothing, as its length is no length.
static const char *match_capture(matcher *m, const char *s, int digit) {
    int i = digit - '1';
    if (i < 0 || i >= m->capture_count || m->captures[i].length == OPEN_CAPTURE)
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    size_t length = (size_t)m->captures[i].length;
    if ((size_t)(m->end - s) < length) return NULL;
    count(m, (ptrdiff_t)(length / COMPARED_PER_STEP));
    return memcmp(m->captures[i].start, s, length) == 0 ? s + length : NULL;
}

static const char *match_frontier(matcher *m, const char *s, const char *p, const char **end) {
    if (*p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
    *end = item_end(m, p);
    int previous = s == m->start ? 0 : byte(s[-1]);
    return !is_in_set(previous, p, *end - 1) && is_in_set(byte(*s), p, *end - 1) ? s : NULL;
}

// MARK: the matcher

// Matches the pattern from `p` on at `s`. Returns the end of the match, or NULL. A jump to `again` is a call in tail position.
static const char *match(matcher *m, const char *s, const char *p) {
    const char *end, *first = p;
    if (m->depth_left-- == 0) luaL_error(m->L, "pattern too complex");
again:
    if (p == m->pattern_end) goto matched;
    switch (*p) {
    case '(':
        s = p[1] == ')' ? open_capture(m, s, p + 2, POSITION_CAPTURE) : open_capture(m, s, p + 1, OPEN_CAPTURE);
        goto matched;
    case ')': s = close_capture(m, s, p + 1); goto matched;
    case '$':
        if (p + 1 != m->pattern_end) break;
        s = s == m->end ? s : NULL;
        goto matched;
    case ESCAPE:
        if (p[1] == 'b') {
            s = match_balanced(m, s, p + 2);
            p += 4;
        } else if (p[1] == 'f') {
            const char *set_end;
            s = match_frontier(m, s, p + 2, &set_end);
            p = set_end;
        } else if (isdigit(byte(p[1]))) {
            s = match_capture(m, s, byte(p[1]));
            p += 2;
        } else {
            break;
        }
        if (s == NULL) goto matched;
        goto again;
    default: break;
    }
    end = item_end(m, p);
    char suffix = *end;
    if (!matches_item(m, s, p, end)) {
        if (suffix == '*' || suffix == '?' || suffix == '-') {
            p = end + 1;
            goto again;
        }
        s = NULL;
        goto matched;
    }
    switch (suffix) {
    case '?': {
        const char *matched = match(m, s + 1, end + 1);
        if (matched == NULL) {
            p = end + 1;
            goto again;
        }
        s = matched;
        break;
    }
    case '+': s = match_most(m, s + 1, p, end); break;
    case '*': s = match_most(m, s, p, end); break;
    case '-': s = match_least(m, s, p, end); break;
    default:
        s++;
        p = end;
        goto again;
    }
matched:
    m->depth_left++;
    count(m, 1 + (ptrdiff_t)((size_t)(p - first) / ITEMS_PER_STEP));
    return s;
}

static void prepare(matcher *m, lua_State *L, const char *s, size_t length, const char *p, size_t pattern_length) {
    m->L = L;
    m->depth_left = MAX_DEPTH;
    m->start = s;
    m->end = s + length;
    m->pattern_end = p + pattern_length;
}

static const char *match_anew(matcher *m, const char *s, const char *p) {
    m->capture_count = 0;
    return match(m, s, p);
}

// MARK: results

// Returns the length of a capture and stores its start, or pushes a position and returns POSITION_CAPTURE. If there are no captures, the
// first is the whole match, from `s` to `end`.
static ptrdiff_t get_capture(matcher *m, int i, const char *s, const char *end, const char **start) {
    if (i >= m->capture_count) {
        if (i != 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
        *start = s;
        return end - s;
    }
    ptrdiff_t length = m->captures[i].length;
    *start = m->captures[i].start;
    if (length == OPEN_CAPTURE) luaL_error(m->L, "unfinished capture");
    if (length == POSITION_CAPTURE) lua_pushinteger(m->L, *start - m->start + 1);
    return length;
}

static void push_capture(matcher *m, int i, const char *s, const char *end) {
    const char *start;
    ptrdiff_t length = get_capture(m, i, s, end, &start);
    if (length != POSITION_CAPTURE) lua_pushlstring(m->L, start, (size_t)length);
}

// Pushes the captures, or the whole match if there are none and `s` is not NULL. Returns their number.
static int push_captures(matcher *m, const char *s, const char *end) {
    int count = m->capture_count == 0 && s != NULL ? 1 : m->capture_count;
    luaL_checkstack(m->L, count, "too many captures");
    for (int i = 0; i < count; i++) push_capture(m, i, s, end);
    return count;
}

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

// The offset that a position means which may count from the end.
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
        clua_count(L, (length - first + pattern_length) / COMPARED_PER_STEP);
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
    matcher m;
    prepare(&m, L, s, length, p, pattern_length);
    begin_counting(&m);
    const char *from = s + first, *matched;
    do {
        matched = match_anew(&m, from, p);
    } while (matched == NULL && from++ < m.end && !is_anchored);
    end_counting(&m);
    if (matched == NULL) {
        luaL_pushfail(L);
        return 1;
    }
    if (!finds) return push_captures(&m, from, matched);
    lua_pushinteger(L, from - s + 1);
    lua_pushinteger(L, matched - s);
    return push_captures(&m, NULL, NULL) + 2;
}

static int find(lua_State *L) { return find_or_match(L, true); }

static int match_string(lua_State *L) { return find_or_match(L, false); }

// MARK: gmatch

typedef struct iteration {
    const char *next;
    const char *pattern;
    const char *last_end;  // the end of the last match
    matcher matcher;
} iteration;

// Upvalues: the subject and the pattern, which must stay alive; the iteration.
static int next_match(lua_State *L) {
    iteration *iteration = lua_touserdata(L, lua_upvalueindex(3));
    matcher *m = &iteration->matcher;
    m->L = L;
    m->depth_left = MAX_DEPTH;  // an error may have ended the last call
    begin_counting(m);
    int count = 0;
    for (const char *s = iteration->next; s <= m->end; s++) {
        const char *end = match_anew(m, s, iteration->pattern);
        if (end != NULL && end != iteration->last_end) {
            iteration->next = iteration->last_end = end;
            count = push_captures(m, s, end);
            break;
        }
    }
    end_counting(m);
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
    prepare(&iteration->matcher, L, s, length, p, pattern_length);
    iteration->next = s + first;
    iteration->pattern = p;
    iteration->last_end = NULL;
    lua_pushcclosure(L, next_match, 3);
    return 1;
}

// MARK: gsub

// Adds the replacement string, in which `%0` to `%9` stand for captures.
static void add_template(matcher *m, luaL_Buffer *buffer, const char *s, const char *end) {
    size_t length;
    const char *template = lua_tolstring(m->L, 3, &length), *p;
    count(m, (ptrdiff_t)(length / COMPARED_PER_STEP));
    while ((p = memchr(template, ESCAPE, length)) != NULL) {
        luaL_addlstring(buffer, template, (size_t)(p - template));
        p++;
        if (*p == ESCAPE) {
            luaL_addchar(buffer, *p);
        } else if (*p == '0') {
            luaL_addlstring(buffer, s, (size_t)(end - s));
        } else if (isdigit(byte(*p))) {
            const char *start;
            ptrdiff_t captured = get_capture(m, *p - '1', s, end, &start);
            if (captured == POSITION_CAPTURE)
                luaL_addvalue(buffer);
            else
                luaL_addlstring(buffer, start, (size_t)captured);
        } else {
            luaL_error(m->L, "invalid use of '%c' in replacement string", ESCAPE);
        }
        count(m, 1);
        length -= (size_t)(p + 1 - template);
        template = p + 1;
    }
    luaL_addlstring(buffer, template, length);
}

// Adds what replaces the match from `s` to `end`. Returns whether it is something else than the match.
static bool add_replacement(matcher *m, luaL_Buffer *buffer, const char *s, const char *end, int type) {
    lua_State *L = m->L;
    switch (type) {
    case LUA_TFUNCTION: {
        lua_pushvalue(L, 3);
        int count = push_captures(m, s, end);
        end_counting(m);
        lua_call(L, count, 1);
        begin_counting(m);
        break;
    }
    case LUA_TTABLE:
        push_capture(m, 0, s, end);
        end_counting(m);
        lua_gettable(L, 3);
        begin_counting(m);
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
    matcher m;
    prepare(&m, L, s, length, p, pattern_length);
    begin_counting(&m);
    const char *last_end = NULL;
    lua_Integer replaced = 0;
    bool has_changed = false;
    while (replaced < most) {
        const char *end = match_anew(&m, s, p);
        if (end != NULL && end != last_end) {
            replaced++;
            has_changed |= add_replacement(&m, &buffer, s, end, type);
            s = last_end = end;
        } else if (s < m.end) {
            luaL_addchar(&buffer, *s++);
        } else {
            break;
        }
        if (is_anchored) break;
    }
    end_counting(&m);
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
