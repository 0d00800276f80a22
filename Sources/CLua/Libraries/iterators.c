#include "Libraries/iterators_raising.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdatomic.h>
#include <stddef.h>

#include "Core/registry_raising.h"

// Iterators without upvalues, which are the same functions in all states of the process.
enum { IPAIRS, CODES, LAX_CODES, ITERATOR_COUNT };
static _Atomic(lua_CFunction) iterators[ITERATOR_COUNT];

// Pushes the function that makes this iterator, and its arguments. Returns how many values that are.
static int push_maker(lua_State *L, int iterator) {
    clua_push_kept(L, iterator == IPAIRS ? CLUA_KEPT_IPAIRS : CLUA_KEPT_CODES);
    lua_pushliteral(L, "");
    if (iterator != LAX_CODES) return 2;
    lua_pushboolean(L, 1);
    return 3;
}

static void keep_field(lua_State *L, const char *library, const char *name, int kept) {
    lua_getglobal(L, library);
    lua_getfield(L, -1, name);
    clua_keep(L, kept);
    lua_pop(L, 1);
}

void clua_open_iterators(lua_State *L) {
    keep_field(L, LUA_GNAME, "ipairs", CLUA_KEPT_IPAIRS);
    keep_field(L, LUA_UTF8LIBNAME, "codes", CLUA_KEPT_CODES);
    keep_field(L, LUA_STRLIBNAME, "gmatch", CLUA_KEPT_GMATCH);
    for (int i = 0; i < ITERATOR_COUNT; i++) {
        lua_call(L, push_maker(L, i) - 1, 1);
        atomic_store_explicit(&iterators[i], lua_tocfunction(L, -1), memory_order_relaxed);
        lua_pop(L, 1);
    }
}

// Which of these iterators is at `index`; ITERATOR_COUNT for other values.
static int find_iterator(lua_State *L, int index) {
    lua_CFunction function = lua_tocfunction(L, index);
    int i = function == NULL ? ITERATOR_COUNT : 0;
    while (i < ITERATOR_COUNT && function != atomic_load_explicit(&iterators[i], memory_order_relaxed)) i++;
    return i;
}

// How the state of an iterator of `string.gmatch` begins: Lua's and ours.
typedef struct match_state {
    const char *next;      // in the subject, up to two bytes after its end
    const char *pattern;
    const char *last_end;  // of the last match, or NULL
} match_state;

// Pushes the upvalue and returns its type, or LUA_TNONE if there is none.
static int push_upvalue(lua_State *L, int function, int number) {
    return lua_getupvalue(L, function, number) != NULL ? lua_type(L, -1) : LUA_TNONE;
}

// The text that upvalue `number` is; NULL if it is something else. The upvalue keeps the text.
static const char *text_upvalue(lua_State *L, int function, int number, size_t *count) {
    int type = push_upvalue(L, function, number);
    const char *text = type == LUA_TSTRING ? lua_tolstring(L, -1, count) : NULL;
    if (type != LUA_TNONE) lua_pop(L, 1);
    return text;
}

// The state of an iterator of `string.gmatch`, whose upvalues are the subject, the pattern and the state. NULL for other values.
static const match_state *match_state_of(lua_State *L, int index, size_t *next) {
    if (!lua_iscfunction(L, index)) return NULL;
    index = lua_absindex(L, index);
    size_t count, pattern_count;
    const char *subject = text_upvalue(L, index, 1, &count), *pattern = text_upvalue(L, index, 2, &pattern_count);
    int type = subject != NULL && pattern != NULL ? push_upvalue(L, index, 3) : LUA_TNONE;
    if (type == LUA_TNONE) return NULL;
    const match_state *state = type == LUA_TUSERDATA && lua_rawlen(L, -1) > sizeof *state ? lua_touserdata(L, -1) : NULL;
    lua_pop(L, 1);
    if (state == NULL || state->pattern != pattern || state->next < subject || state->next > subject + count + 1) return NULL;
    *next = (size_t)(state->next - subject);
    return state;
}

bool clua_is_match_iterator(lua_State *L, int index) {
    size_t next;
    return match_state_of(L, index, &next) != NULL;
}

bool clua_is_new_iterator(lua_State *L, int index) {
    size_t next;
    if (find_iterator(L, index) != ITERATOR_COUNT) return true;
    const match_state *state = match_state_of(L, index, &next);
    return state != NULL && state->last_end == NULL;
}

int clua_take_iterator_apart(lua_State *L) {
    size_t next;
    lua_settop(L, 1);
    int iterator = find_iterator(L, 1);
    if (iterator != ITERATOR_COUNT) return push_maker(L, iterator);
    if (match_state_of(L, 1, &next) == NULL) return luaL_error(L, "opscript bug: not an iterator");
    clua_push_kept(L, CLUA_KEPT_GMATCH);
    lua_getupvalue(L, 1, 1);
    lua_getupvalue(L, 1, 2);
    lua_pushinteger(L, (lua_Integer)next + 1);
    return 4;
}
