#include "Transfer/parcel_path.h"

#include <ctype.h>
#include <lua5.4/lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "Libraries/iterators_raising.h"
#include "object.h"

enum { MOST_STEPS = 20 };

static bool is_root(const path_step *step) { return step->kind <= PATH_MODULE; }

static bool is_name(const char *text, size_t count) {
    if (count == 0 || isdigit((unsigned char)text[0])) return false;
    for (size_t i = 0; i < count; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
    return true;
}

static void add_field(luaL_Buffer *message, const char *text, size_t count) {
    bool name = is_name(text, count);
    luaL_addstring(message, name ? "." : "[\"");
    luaL_addlstring(message, text, count);
    if (!name) luaL_addstring(message, "\"]");
}

static void add_root(luaL_Buffer *message, const path_step *step) {
    lua_State *L = message->L;
    switch (step->kind) {
    case PATH_ARGUMENT: lua_pushfstring(L, "argument %I", step->number); break;
    case PATH_RESULT: lua_pushfstring(L, "result %I", step->number); break;
    case PATH_UPVALUE: lua_pushfstring(L, "upvalue '%s'", step->text); break;
    case PATH_GLOBAL: lua_pushfstring(L, "global '%s'", step->text); break;
    case PATH_MODULE: lua_pushfstring(L, "module '%s'", step->text); break;
    case PATH_CLASS: lua_pushfstring(L, "class %s", step->text); break;
    case PATH_MAIN: lua_pushliteral(L, "the main function"); break;
    default: lua_pushliteral(L, "the value"); break;
    }
    luaL_addvalue(message);
}

static void add_step(luaL_Buffer *message, const path_step *step) {
    lua_State *L = message->L;
    switch (step->kind) {
    case PATH_FIELD: add_field(message, step->text, (size_t)step->number); return;
    case PATH_ELEMENT: lua_pushfstring(L, "[%I]", step->number); break;
    case PATH_OTHER: lua_pushfstring(L, "[a %s]", step->text); break;
    case PATH_KEY: lua_pushliteral(L, " key"); break;
    case PATH_METATABLE: lua_pushliteral(L, ".<metatable>"); break;
    default: lua_pushfstring(L, ".<__transfer value %I>", step->number); break;
    }
    luaL_addvalue(message);
}

// Adds the steps from the root on. A long path is shortened in the middle. Returns the root.
static const path_step *add_path(luaL_Buffer *message, const path_step *last) {
    const path_step *steps[MOST_STEPS];  // the last steps, newest first
    size_t count = 0;
    const path_step *step = last;
    for (; !is_root(step); step = step->parent) {
        if (count < MOST_STEPS) steps[count] = step;
        count++;
    }
    add_root(message, step);
    if (count > MOST_STEPS) luaL_addstring(message, "…");
    for (size_t i = count < MOST_STEPS ? count : MOST_STEPS; i > 0; i--) add_step(message, steps[i - 1]);
    return step;
}

static bool is_file(lua_State *L, int index) {
    bool same = false;
    if (lua_getmetatable(L, index)) {
        luaL_getmetatable(L, LUA_FILEHANDLE);
        same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    return same;
}

// The words of an error: the kind of the value, and the remedy.
typedef struct refusal {
    const char *type, *remedy;
} refusal;

static refusal refusal_of_function(lua_State *L, int index) {
    if (clua_is_match_iterator(L, index)) return (refusal){"an iterator of string.gmatch that has begun", "call string.gmatch inside the body"};
    int top = lua_gettop(L);
    bool has_upvalue = lua_getupvalue(L, index, 1) != NULL, is_coroutine = has_upvalue && lua_isthread(L, -1);
    bool is_lines = has_upvalue && lua_isuserdata(L, -1) && is_file(L, -1);
    lua_settop(L, top);
    if (is_coroutine) return (refusal){"a function of coroutine.wrap", "create it inside the body"};
    if (is_lines) return (refusal){"an iterator over the lines of a file", "open the file inside the body"};
    return (refusal){"a C function", "create it inside the body, or in a module that the body requires"};
}

static refusal refusal_of(lua_State *L, int index) {
    switch (lua_type(L, index)) {
    case LUA_TFUNCTION: return refusal_of_function(L, index);
    case LUA_TTHREAD: return (refusal){"a coroutine", "create it inside the body"};
    case LUA_TTABLE:
        return (refusal){"a table with __gc", "a copy's finalizer would release what the table still uses: create it inside the body, or give its "
                                              "metatable a __transfer"};
    case LUA_TLIGHTUSERDATA: return (refusal){"a light userdata", "it is an address, which means nothing elsewhere"};
    default: return (refusal){"a userdata", is_file(L, index) ? "open it inside the body" : "create it inside the body, or give its metatable a __transfer"};
    }
}

void path_push_name(lua_State *L, const path_step *last) {
    luaL_Buffer name;
    luaL_buffinit(L, &name);
    add_path(&name, last);
    luaL_pushresult(&name);
}

void path_push_message(lua_State *L, const path_step *last, int index) {
    int culprit = lua_absindex(L, index);
    refusal refusal = refusal_of(L, culprit);
    luaL_Buffer message;
    luaL_buffinit(L, &message);
    luaL_addstring(&message, "cannot send ");
    const path_step *root = add_path(&message, last);
    lua_pushfstring(L, " (%s)", refusal.type);
    luaL_addvalue(&message);
    if (root->label != NULL) {
        lua_pushfstring(L, " of function %s", root->label);
        luaL_addvalue(&message);
    }
    if (root->kind == PATH_MODULE)
        lua_pushfstring(L, ", which the script has set after it loaded the module; set it in opscript.prelude instead, or %s", refusal.remedy);
    else
        lua_pushfstring(L, "; %s", refusal.remedy);
    luaL_addvalue(&message);
    luaL_pushresult(&message);
}
