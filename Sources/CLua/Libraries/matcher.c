// Matching patterns, with the algorithm and the messages of Lua 5.4's lstrlib.c (MIT licence, Copyright (C) 1994-2022 Lua.org, PUC-Rio).
// Lua's own matcher cannot be stopped, and backtracking may take centuries. This one counts its steps, and needs no more instructions.
#include <ctype.h>
#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "Libraries/matcher_raising.h"

enum {
    ESCAPE = '%',
    MAX_DEPTH = 200,         // nested calls of `match`
    OPEN_CAPTURE = -1,       // the length of a capture that has no end yet
    ITEMS_PER_STEP = 4,      // single characters that a repetition matches
    SET_PER_STEP = 16,       // bytes of a set
    PATTERN_PER_STEP = 64,   // bytes of the pattern: a call of `match` handles one item, or a few one after the other
};

static const char *match(clua_matcher *m, const char *s, const char *p, int depth);

static inline int byte(char c) { return (unsigned char)c; }

// Unlike `isdigit` of <ctype.h>, this needs no call.
static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// MARK: counting

__attribute__((noinline, cold)) static void look(clua_matcher *m) {
    clua_matcher_pause(m);
    clua_look(m->L);
    clua_matcher_resume(m);
}

static inline void count(clua_matcher *m, ptrdiff_t steps) {
    if (__builtin_expect((m->steps_left -= steps) < 0, 0)) look(m);
}

// MARK: single characters

__attribute__((noinline, cold)) static void fail(clua_matcher *m, const char *message) { luaL_error(m->L, "malformed pattern (%s)", message); }

// Returns the end of the set whose '[' is before `p`.
static const char *set_end(clua_matcher *m, const char *p) {
    if (*p == '^') p++;
    do {  // a ']' in the first place belongs to the set
        if (p == m->pattern_end) fail(m, "missing ']'");
        if (*p++ == ESCAPE && p < m->pattern_end) p++;
    } while (*p != ']');
    return p + 1;
}

// Returns the place behind the item at `p`, without its suffix.
static inline const char *item_end(clua_matcher *m, const char *p) {
    char first = *p++;
    if (first == ESCAPE) {
        if (p == m->pattern_end) fail(m, "ends with '%'");
        return p + 1;
    }
    return first == '[' ? set_end(m, p) : p;
}

// Whether `c` is in a class of characters. Not bool: the conversion would cost more than the test.
static int is_in_class(int c, int class) {
    int is_in;
    switch (class | 0x20) {  // the small letter of a letter, and no letter otherwise
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
    case 'z': is_in = c == 0; break;  // deprecated, but Lua 5.4 still has it
    default: return class == c;
    }
    return class & 0x20 ? is_in : !is_in;
}

// Whether `c` is in the set from the '[' at `p` to the ']' at `last`.
static int is_in_set(int c, const char *p, const char *last) {
    int is_listed = 1;
    if (p[1] == '^') {
        is_listed = 0;
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
static inline int matches_item(const clua_matcher *m, const char *s, const char *p, const char *end) {
    if (s >= m->end) return 0;
    int c = byte(*s);
    switch (*p) {
    case '.': return 1;
    case ESCAPE: return is_in_class(c, byte(p[1]));
    case '[': return is_in_set(c, p, end - 1);
    default: return byte(*p) == c;
    }
}

// MARK: items

// Not inlined, because `match` would then save more registers in each of its calls.
#define RARE __attribute__((noinline))

RARE static const char *match_balanced(clua_matcher *m, const char *s, const char *p) {
    if (p >= m->pattern_end - 1) fail(m, "missing arguments to '%b'");
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

static const char *match_most(clua_matcher *m, const char *s, const char *p, const char *end, int depth) {
    const char *last = s;
    if (*p == '.') {
        last = m->end;
    } else if (*p == '[') {
        ptrdiff_t steps = 1 + (ptrdiff_t)((size_t)(end - p) / SET_PER_STEP);
        for (; last < m->end && is_in_set(byte(*last), p, end - 1); last++) count(m, steps);
    } else {
        while (matches_item(m, last, p, end)) last++;
        m->steps_left -= (ptrdiff_t)((size_t)(last - s) / ITEMS_PER_STEP);  // the next call of `match` looks
    }
    for (; last >= s; last--) {
        const char *matched = match(m, last, end + 1, depth);
        if (matched != NULL) return matched;
    }
    return NULL;
}

static const char *match_least(clua_matcher *m, const char *s, const char *p, const char *end, int depth) {
    for (;;) {
        const char *matched = match(m, s, end + 1, depth);
        if (matched != NULL) return matched;
        if (!matches_item(m, s, p, end)) return NULL;
        s++;
        m->steps_left -= (ptrdiff_t)((size_t)(end - p) / SET_PER_STEP);
    }
}

// MARK: captures

static const char *open_capture(clua_matcher *m, const char *s, const char *p, ptrdiff_t length, int depth) {
    int i = m->capture_count;
    if (i >= CLUA_MAX_CAPTURES) luaL_error(m->L, "too many captures");
    m->captures[i].start = s;
    m->captures[i].length = length;
    m->capture_count = i + 1;
    const char *matched = match(m, s, p, depth);
    if (matched == NULL) m->capture_count--;
    return matched;
}

static const char *close_capture(clua_matcher *m, const char *s, const char *p, int depth) {
    int i = m->capture_count;
    do {
        if (--i < 0) luaL_error(m->L, "invalid pattern capture");
    } while (m->captures[i].length != OPEN_CAPTURE);
    m->captures[i].length = s - m->captures[i].start;
    const char *matched = match(m, s, p, depth);
    if (matched == NULL) m->captures[i].length = OPEN_CAPTURE;
    return matched;
}

// Matches the text of the capture with the given digit. A position capture matches nothing: as a size_t, its length -2 is too large.
RARE static const char *match_capture(clua_matcher *m, const char *s, int digit) {
    int i = digit - '1';
    if (i < 0 || i >= m->capture_count || m->captures[i].length == OPEN_CAPTURE)
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    size_t length = (size_t)m->captures[i].length;
    if ((size_t)(m->end - s) < length) return NULL;
    count(m, (ptrdiff_t)(length / CLUA_BYTES_PER_STEP));
    return memcmp(m->captures[i].start, s, length) == 0 ? s + length : NULL;
}

// Matches the set at `p` and stores its end.
RARE static const char *match_frontier(clua_matcher *m, const char *s, const char *p, const char **end) {
    if (*p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
    *end = set_end(m, p + 1);
    int previous = s == m->start ? 0 : byte(s[-1]);
    return !is_in_set(previous, p, *end - 1) && is_in_set(byte(*s), p, *end - 1) ? s : NULL;
}

// MARK: the matcher

// Matches the pattern from `p` on at `s`. `depth` calls of this function may still be nested.
static const char *match(clua_matcher *m, const char *s, const char *p, int depth) {
    if (__builtin_expect(depth-- == 0, 0)) luaL_error(m->L, "pattern too complex");
    count(m, m->steps_per_call);
    while (p != m->pattern_end) {
        switch (*p) {
        case '(':
            return p[1] == ')' ? open_capture(m, s, p + 2, CLUA_POSITION_CAPTURE, depth) : open_capture(m, s, p + 1, OPEN_CAPTURE, depth);
        case ')': return close_capture(m, s, p + 1, depth);
        case '$':
            if (p + 1 != m->pattern_end) break;
            return s == m->end ? s : NULL;
        case ESCAPE:
            if (p[1] == 'b') {
                s = match_balanced(m, s, p + 2);
                p += 4;
            } else if (p[1] == 'f') {
                s = match_frontier(m, s, p + 2, &p);
            } else if (is_digit(p[1])) {
                s = match_capture(m, s, byte(p[1]));
                p += 2;
            } else {
                break;
            }
            if (s == NULL) return NULL;
            continue;
        default: break;
        }
        const char *end = item_end(m, p);
        if (!matches_item(m, s, p, end)) {
            if (*end != '*' && *end != '?' && *end != '-') return NULL;
            p = end + 1;  // matches nothing
            continue;
        }
        switch (*end) {
        case '?': {
            const char *matched = match(m, s + 1, end + 1, depth);
            if (matched != NULL) return matched;
            p = end + 1;
            break;
        }
        case '+': return match_most(m, s + 1, p, end, depth);
        case '*': return match_most(m, s, p, end, depth);
        case '-': return match_least(m, s, p, end, depth);
        default:
            s++;
            p = end;
        }
    }
    return s;
}

void clua_matcher_prepare(clua_matcher *m, lua_State *L, const char *s, size_t length, const char *p, size_t pattern_length) {
    m->L = L;
    m->start = s;
    m->end = s + length;
    m->pattern_end = p + pattern_length;
    m->steps_per_call = 1 + (ptrdiff_t)(pattern_length / PATTERN_PER_STEP);
}

// The first item of a pattern: the character at the start of a match matches the item from `p` to `end`. If `p` is NULL, any character does.
typedef struct beginning {
    const char *p, *end;
} beginning;

// Finds the first item once, instead of in each call of `match`: most places of a subject cannot begin a match.
static beginning find_beginning(clua_matcher *m, const char *p) {
    if (p < m->pattern_end && *p == '(' && p[1] != ')') p++;
    if (p == m->pattern_end || *p == '(' || *p == ')' || *p == '$') return (beginning){NULL, NULL};
    if (*p == ESCAPE && p[1] == 'b' && p + 3 < m->pattern_end) return (beginning){p + 2, p + 3};
    if (*p == ESCAPE && (p[1] == 'b' || p[1] == 'f' || is_digit(p[1]))) return (beginning){NULL, NULL};
    const char *end = item_end(m, p);
    if (*end == '*' || *end == '?' || *end == '-') return (beginning){NULL, NULL};
    return (beginning){p, end};
}

// Returns the first place from `s` on where a match may begin, or NULL.
static const char *find_place(clua_matcher *m, const char *s, beginning first) {
    const char *place = s;
    if (first.end - first.p == 1 && *first.p != '.') {
        place = s < m->end ? memchr(s, *first.p, (size_t)(m->end - s)) : NULL;
        count(m, ((place != NULL ? place : m->end) - s) / CLUA_BYTES_PER_STEP);
        return place;
    }
    ptrdiff_t steps = 1 + (first.end - first.p) / SET_PER_STEP;
    for (; place < m->end; place++) {
        if (matches_item(m, place, first.p, first.end)) return place;
        count(m, steps);
    }
    return NULL;
}

const char *clua_matcher_search(clua_matcher *m, const char *s, const char *p, bool is_anchored, const char **start) {
    beginning first = is_anchored ? (beginning){NULL, NULL} : find_beginning(m, p);
    for (; s <= m->end; s++) {
        if (first.p != NULL && (s = find_place(m, s, first)) == NULL) return NULL;
        m->capture_count = 0;
        const char *end = match(m, s, p, MAX_DEPTH);
        if (end != NULL || is_anchored) {
            *start = s;
            return end;
        }
    }
    return NULL;
}

// MARK: captures of a match

ptrdiff_t clua_matcher_capture(clua_matcher *m, int i, const char *s, const char *end, const char **start) {
    if (i >= m->capture_count) {
        if (i != 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
        *start = s;
        return end - s;
    }
    ptrdiff_t length = m->captures[i].length;
    *start = m->captures[i].start;
    if (length == OPEN_CAPTURE) luaL_error(m->L, "unfinished capture");
    if (length == CLUA_POSITION_CAPTURE) lua_pushinteger(m->L, *start - m->start + 1);
    return length;
}

void clua_matcher_push(clua_matcher *m, int i, const char *s, const char *end) {
    const char *start;
    ptrdiff_t length = clua_matcher_capture(m, i, s, end, &start);
    if (length != CLUA_POSITION_CAPTURE) lua_pushlstring(m->L, start, (size_t)length);
}

int clua_matcher_push_all(clua_matcher *m, const char *s, const char *end) {
    int count = m->capture_count == 0 && s != NULL ? 1 : m->capture_count;
    luaL_checkstack(m->L, count, "too many captures");
    for (int i = 0; i < count; i++) clua_matcher_push(m, i, s, end);
    return count;
}
