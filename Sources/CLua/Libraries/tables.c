// The functions of `table` that loop, with the algorithms and the messages of Lua 5.4's ltablib.c (MIT licence, Copyright (C) 1994-2022
// Lua.org, PUC-Rio). Lua's versions loop for as long as `__len` or an argument says, without an instruction that a hook could see.
#include <limits.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>

#include "Libraries/bounded_raising.h"
#include "Limits/count_raising.h"

// The operations that an object must support in place of a table.
enum { READ = 1, WRITE = 2, LENGTH = 4 };

enum { STEPS_PER_MOVE = 4, BYTES_PER_STEP = 16, ELEMENTS_PER_COUNT = 64 };

// Counts the steps of a loop over elements. Only one element in 64 counts, for all of them.
static inline void count_element(lua_State *L, lua_Unsigned i) {
    if (i % ELEMENTS_PER_COUNT == 0) clua_count(L, ELEMENTS_PER_COUNT * STEPS_PER_MOVE);
}

static bool has_field(lua_State *L, const char *name, int metatable) {
    lua_pushstring(L, name);
    return lua_rawget(L, -metatable) != LUA_TNIL;
}

static void check_table(lua_State *L, int arg, int needs) {
    if (lua_type(L, arg) == LUA_TTABLE) return;
    int pushed = 1;
    if (lua_getmetatable(L, arg) && (!(needs & READ) || has_field(L, "__index", ++pushed))
        && (!(needs & WRITE) || has_field(L, "__newindex", ++pushed)) && (!(needs & LENGTH) || has_field(L, "__len", ++pushed)))
        lua_pop(L, pushed);
    else
        luaL_checktype(L, arg, LUA_TTABLE);
}

static lua_Integer check_length(lua_State *L, int needs) {
    check_table(L, 1, needs | LENGTH);
    return luaL_len(L, 1);
}

// Assigns the element `from` of the table at index 1 to the element `to` of the table at index `target`.
static void move_element(lua_State *L, lua_Integer from, int target, lua_Integer to) {
    count_element(L, (lua_Unsigned)to);
    lua_geti(L, 1, from);
    lua_seti(L, target, to);
}

static int insert(lua_State *L) {
    lua_Integer end = (lua_Integer)((lua_Unsigned)check_length(L, READ | WRITE) + 1), position;
    switch (lua_gettop(L)) {
    case 2: position = end; break;
    case 3:
        position = luaL_checkinteger(L, 2);
        luaL_argcheck(L, (lua_Unsigned)position - 1u < (lua_Unsigned)end, 2, "position out of bounds");
        for (lua_Integer i = end; i > position; i--) move_element(L, i - 1, 1, i);
        break;
    default: return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_seti(L, 1, position);
    return 0;
}

static int take(lua_State *L) {
    lua_Integer size = check_length(L, READ | WRITE), position = luaL_optinteger(L, 2, size);
    if (position != size) luaL_argcheck(L, (lua_Unsigned)position - 1u <= (lua_Unsigned)size, 1, "position out of bounds");
    lua_geti(L, 1, position);
    for (; position < size; position++) move_element(L, position + 1, 1, position);
    lua_pushnil(L);
    lua_seti(L, 1, position);
    return 1;
}

static int move(lua_State *L) {
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    check_table(L, 1, READ);
    check_table(L, target, WRITE);
    if (last >= first) {
        luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
        lua_Integer count = last - first + 1;
        luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
        if (to > last || to <= first || (target != 1 && !lua_compare(L, 1, target, LUA_OPEQ))) {
            for (lua_Integer i = 0; i < count; i++) move_element(L, first + i, target, to + i);
        } else {
            for (lua_Integer i = count - 1; i >= 0; i--) move_element(L, first + i, target, to + i);
        }
    }
    lua_pushvalue(L, target);
    return 1;
}

static void add_element(lua_State *L, luaL_Buffer *buffer, lua_Integer i) {
    lua_geti(L, 1, i);
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1), (LUAI_UACINT)i);
    luaL_addvalue(buffer);
}

static int concat(lua_State *L) {
    lua_Integer last = check_length(L, READ);
    size_t length;
    const char *separator = luaL_optlstring(L, 2, "", &length);
    lua_Integer i = luaL_optinteger(L, 3, 1);
    last = luaL_optinteger(L, 4, last);
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (; i < last; i++) {
        count_element(L, (lua_Unsigned)i);
        if (length >= BYTES_PER_STEP) clua_count(L, length / BYTES_PER_STEP);
        add_element(L, &buffer, i);
        luaL_addlstring(&buffer, separator, length);
    }
    if (i == last) add_element(L, &buffer, i);
    luaL_pushresult(&buffer);
    return 1;
}

static int unpack(lua_State *L) {
    lua_Integer i = luaL_optinteger(L, 2, 1), last = luaL_opt(L, luaL_checkinteger, 3, luaL_len(L, 1));
    if (i > last) return 0;
    lua_Unsigned count = (lua_Unsigned)last - (lua_Unsigned)i;
    if (count >= (unsigned)INT_MAX || !lua_checkstack(L, (int)++count)) return luaL_error(L, "too many results to unpack");
    for (; i < last; i++) {  // the last index may be the largest integer
        lua_geti(L, 1, i);
        count_element(L, (lua_Unsigned)i);
    }
    lua_geti(L, 1, last);
    return (int)count;
}

// MARK: sort

// Quicksort, as in Sedgewick's "Algorithms in Modula-3". The pivot of a large interval is random if the intervals become too unequal.

enum { RANDOM_FROM = 100 };

// Assigns the two values on top to the elements `i` and `j`, the topmost to `i`.
static void assign_both(lua_State *L, unsigned i, unsigned j) {
    lua_seti(L, 1, i);
    lua_seti(L, 1, j);
}

// Calls the order function.
__attribute__((noinline)) static int call_order(lua_State *L, int a, int b) {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a - 1);
    lua_pushvalue(L, b - 2);
    lua_call(L, 2, 1);
    int is_less = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is_less;
}

// Always inlined, and not bool: a call and a conversion would cost a fifth of a comparison of numbers.
static inline __attribute__((always_inline)) int is_less(lua_State *L, int a, int b) {
    return lua_isnil(L, 2) ? lua_compare(L, a, b, LUA_OPLT) : call_order(L, a, b);
}

// The pivot is on top, and equals the element `high - 1`. Returns its new place.
static unsigned partition(lua_State *L, unsigned low, unsigned high) {
    unsigned i = low, j = high - 1;
    for (;;) {
        while (lua_geti(L, 1, ++i), is_less(L, -1, -2)) {
            count_element(L, i);
            if (i == high - 1) luaL_error(L, "invalid order function for sorting");
            lua_pop(L, 1);
        }
        while (lua_geti(L, 1, --j), is_less(L, -3, -1)) {
            count_element(L, j);
            if (j < i) luaL_error(L, "invalid order function for sorting");
            lua_pop(L, 1);
        }
        if (j < i) {
            lua_pop(L, 1);
            assign_both(L, high - 1, i);
            return i;
        }
        assign_both(L, i, j);
        count_element(L, i);
    }
}

static void sort_interval(lua_State *L, unsigned low, unsigned high, unsigned random) {
    while (low < high) {
        lua_geti(L, 1, low);
        lua_geti(L, 1, high);
        if (is_less(L, -1, -2))
            assign_both(L, low, high);
        else
            lua_pop(L, 2);
        if (high - low == 1) return;
        clua_count(L, STEPS_PER_MOVE);
        unsigned quarter = (high - low) / 4;
        unsigned pivot = high - low < RANDOM_FROM || random == 0 ? (low + high) / 2 : random % (quarter * 2) + low + quarter;
        lua_geti(L, 1, pivot);
        lua_geti(L, 1, low);
        if (is_less(L, -2, -1)) {
            assign_both(L, pivot, low);
        } else {
            lua_pop(L, 1);
            lua_geti(L, 1, high);
            if (is_less(L, -1, -2))
                assign_both(L, pivot, high);
            else
                lua_pop(L, 2);
        }
        if (high - low == 2) return;
        lua_geti(L, 1, pivot);
        lua_pushvalue(L, -1);
        lua_geti(L, 1, high - 1);
        assign_both(L, pivot, high - 1);
        pivot = partition(L, low, high);
        unsigned smaller;
        if (pivot - low < high - pivot) {  // recursion for the smaller part bounds the depth
            sort_interval(L, low, pivot - 1, random);
            smaller = pivot - low;
            low = pivot + 1;
        } else {
            sort_interval(L, pivot + 1, high, random);
            smaller = high - pivot;
            high = pivot - 1;
        }
        if ((high - low) / 128 > smaller) random = random * 1664525u + 1013904223u;
    }
}

static int sort(lua_State *L) {
    lua_Integer count = check_length(L, READ | WRITE);
    if (count > 1) {
        luaL_argcheck(L, count < INT_MAX, 1, "array too big");
        if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
        lua_settop(L, 2);
        sort_interval(L, 1, (unsigned)count, 0);
    }
    return 0;
}

void clua_open_tables(lua_State *L) {
    static const luaL_Reg functions[] = {{"concat", concat}, {"insert", insert}, {"move", move},  {"remove", take},
                                         {"sort", sort},     {"unpack", unpack}, {NULL, NULL}};
    lua_getglobal(L, LUA_TABLIBNAME);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}
