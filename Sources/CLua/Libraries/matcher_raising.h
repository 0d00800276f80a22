// Matches patterns of Lua, and counts the steps. May raise.
#ifndef CLUA_MATCHER_RAISING_H
#define CLUA_MATCHER_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "Limits/count_raising.h"

enum {
    CLUA_MAX_CAPTURES = 32,
    CLUA_BYTES_PER_STEP = 16,         // the bytes that memcmp and similar functions handle in the time of a step
    CLUA_POSITION_CAPTURE = -2,       // the length of a capture that is a position
};

typedef struct clua_matcher {
    const char *start, *end;  // the subject
    const char *pattern_end;
    lua_State *L;
    ptrdiff_t steps_left;     // the state's, while the matcher works
    ptrdiff_t steps_per_call;
    int capture_count;
    struct {
        const char *start;
        ptrdiff_t length;
    } captures[CLUA_MAX_CAPTURES];
} clua_matcher;

/// Prepares the matcher for a subject and a pattern without its anchor.
void clua_matcher_prepare(clua_matcher *m, lua_State *L, const char *s, size_t length, const char *p, size_t pattern_length);

/// Matches the pattern `p` at `s` or, unless `is_anchored`, at the first place after `s` where it matches. Returns the end of the match and
/// stores its start, or returns NULL. `s` is a place in the subject or its end.
const char *clua_matcher_search(clua_matcher *m, const char *s, const char *p, bool is_anchored, const char **start);

/// Returns the length of the capture `i` and stores its start, or pushes a position and returns CLUA_POSITION_CAPTURE. If there are no
/// captures, the first is the whole match, from `s` to `end`.
ptrdiff_t clua_matcher_capture(clua_matcher *m, int i, const char *s, const char *end, const char **start);
void clua_matcher_push(clua_matcher *m, int i, const char *s, const char *end);

/// Pushes the captures, or the whole match if there are none and `s` is not NULL. Returns their number.
int clua_matcher_push_all(clua_matcher *m, const char *s, const char *end);

// The matcher has the state's count while it works. Other code that may count, such as a call of Lua code, needs a pause before it and a resume
// after it.
static inline void clua_matcher_resume(clua_matcher *m) { m->steps_left = clua_state_of(m->L)->stop.steps_left; }
static inline void clua_matcher_pause(clua_matcher *m) { clua_state_of(m->L)->stop.steps_left = m->steps_left; }

#endif
