#include "Libraries/private_tables_raising.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"

enum { MOST_DEPTH = 8, MOST_VALUES = 4096, MOST_PATH = 256, MOST_FIELDS = 1000 };

// A walk through one module. The path leads to the value on top of the stack.
typedef struct walk {
    lua_State *L;
    int name, walked, tables;  // stack indices
    int left;
    size_t count;
    char path[MOST_PATH];
} walk;

static void walk_value(walk *w, int depth);

// Appends a step to the path. Returns false if the path would be too long.
static bool add_step(walk *w, char kind, const char *text, size_t count) {
    if (w->count + count + 2 > sizeof w->path) return false;
    w->path[w->count++] = kind;
    memcpy(w->path + w->count, text, count);
    w->count += count;
    w->path[w->count] = '\0';
    return true;
}

bool clua_has_weak_keys(lua_State *L, int index) {
    if (!lua_getmetatable(L, index)) return false;
    lua_pushliteral(L, "__mode");
    lua_rawget(L, -2);
    bool has_weak_keys = lua_type(L, -1) == LUA_TSTRING && strchr(lua_tostring(L, -1), 'k') != NULL;
    lua_pop(L, 2);
    return has_weak_keys;
}

// Looks at some fields only: a table of many entries is data, and may be reached by many ways.
static bool has_meta_names(lua_State *L) {
    int left = MOST_FIELDS;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        if (left-- == 0) {
            lua_pop(L, 1);
            return false;
        }
        if (lua_type(L, -1) != LUA_TSTRING || strncmp(lua_tostring(L, -1), "__", 2) != 0) continue;
        lua_pop(L, 1);
        return true;
    }
    return false;
}

// Records the table on top if it is a metatable or a registry, and was not met before.
static void note_table(walk *w) {
    lua_State *L = w->L;
    if (!lua_istable(L, -1) || clua_is_environment(L, -1) || !(has_meta_names(L) || clua_has_weak_keys(L, -1))) return;
    lua_pushvalue(L, -1);
    bool is_noted = lua_rawget(L, w->tables) != LUA_TNIL;
    lua_pop(L, 1);
    if (is_noted) return;
    lua_pushvalue(L, -1);
    lua_pushvalue(L, w->name);
    lua_pushstring(L, w->path);
    clua_pack(L, 2);
    lua_rawset(L, w->tables);
}

// Walks on to the value on top, by a step, and pops it.
static void walk_step(walk *w, int depth, char kind, const char *text, size_t count) {
    size_t before = w->count;
    if (add_step(w, kind, text, count)) {
        if (kind != '.') note_table(w);
        walk_value(w, depth + 1);
    }
    w->path[w->count = before] = '\0';
    lua_pop(w->L, 1);
}

static void walk_function(walk *w, int depth) {
    lua_State *L = w->L;
    int function = lua_gettop(L);
    for (int i = 1; lua_getupvalue(L, function, i) != NULL; i++) {
        char text[4];
        size_t count = 0;
        if (i >= 100) text[count++] = (char)('0' + i / 100);
        if (i >= 10) text[count++] = (char)('0' + i / 10 % 10);
        text[count++] = (char)('0' + i % 10);
        walk_step(w, depth, '^', text, count);
    }
}

// Walks through the functions of a table, and the tables of the module itself. Those of others may be data.
static void walk_table(walk *w, int depth) {
    lua_State *L = w->L;
    int table = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        size_t count = 0;
        const char *text = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &count) : "";
        bool is_walked = lua_isfunction(L, -1) || (lua_istable(L, -1) && (depth == 0 || strcmp(text, "__index") == 0));
        if (is_walked && count > 0 && strcspn(text, ".^@") == count)
            walk_step(w, depth, '.', text, count);
        else
            lua_pop(L, 1);
    }
    if (lua_getmetatable(L, table)) walk_step(w, depth, '@', "", 0);
}

// Walks on from the value on top, unless an earlier walk has been there.
static void walk_value(walk *w, int depth) {
    lua_State *L = w->L;
    bool is_table = lua_istable(L, -1), is_function = lua_isfunction(L, -1) && !lua_iscfunction(L, -1);
    if ((!is_table && !is_function) || depth > MOST_DEPTH || w->left == 0) return;
    luaL_checkstack(L, 12, NULL);
    if (is_table && clua_is_environment(L, -1)) return;
    lua_pushvalue(L, -1);
    bool is_walked = lua_rawget(L, w->walked) != LUA_TNIL;
    lua_pop(L, 1);
    if (is_walked) return;
    w->left--;
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, w->walked);
    if (is_table)
        walk_table(w, depth);
    else
        walk_function(w, depth);
}

void clua_find_private_tables(lua_State *L, int name) {
    int module = lua_gettop(L);
    walk w = {.L = L, .name = lua_absindex(L, name), .walked = module + 1, .tables = module + 2, .left = MOST_VALUES, .count = 1, .path = "^"};
    clua_push_kept_weak(L, CLUA_KEPT_WALKED, "k");
    clua_push_kept_weak(L, CLUA_KEPT_PRIVATE_TABLES, "k");
    lua_pushvalue(L, module);
    walk_value(&w, 0);
    lua_settop(L, module);
}

bool clua_push_private_table(lua_State *L, const char *path) {
    lua_pushvalue(L, -1);
    int value = lua_gettop(L);
    for (path++; *path != '\0';) {
        char kind = *path++;
        size_t count = strcspn(path, ".^@");
        if (kind == '.' && lua_istable(L, value)) {
            lua_pushlstring(L, path, count);
            lua_rawget(L, value);
        } else if (kind == '^' && lua_isfunction(L, value)) {
            if (lua_getupvalue(L, value, atoi(path)) == NULL) lua_pushnil(L);
        } else if (kind != '@' || !lua_getmetatable(L, value)) {
            lua_pushnil(L);
        }
        lua_replace(L, value);
        path += count;
    }
    if (lua_istable(L, value)) return true;
    lua_pop(L, 1);
    return false;
}
