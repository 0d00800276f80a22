// The functions with which a host application uses a state besides running bodies.
#include <limits.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Calls/application_raising.h"
#include "Calls/callback_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/modules_raising.h"
#include "Limits/stop_raising.h"
#include "Objects/object_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/parcel_raising.h"
#include "application.h"
#include "protect.h"
#include "state.h"

// MARK: loading

typedef struct source {
    const char *bytes;
    size_t count;
    const char *name;
    int status;
} source;

// Pushes the compiled function. Raises a syntax error's message unchanged.
static int load_string(lua_State *L) {
    source *source = lua_touserdata(L, 1);
    source->status = clua_load_buffer(L, source->bytes, source->count, source->name);
    return source->status == LUA_OK ? 1 : lua_error(L);
}

static int load_file(lua_State *L) {
    source *source = lua_touserdata(L, 1);
    source->status = luaL_loadfilex(L, source->name, NULL);
    return source->status == LUA_OK ? 1 : lua_error(L);
}

static int load(lua_State *L, lua_CFunction loader, source *source, clua_failure *failure) {
    int status = clua_protect(L, loader, source, 1, failure);
    if (status == LUA_OK || source->status == LUA_OK) return status;
    failure->status = source->status;
    failure->traceback_count = 0;  // no code was running
    static const char end[] = "<eof>";
    size_t length = sizeof end - 1;
    failure->incomplete = source->status == LUA_ERRSYNTAX && failure->message_count >= length
        && memcmp(failure->message + failure->message_count - length, end, length) == 0;
    return source->status;
}

int clua_load_string(lua_State *L, const char *bytes, size_t count, const char *name, clua_failure *failure) {
    source source = {bytes, count, name, LUA_OK};
    return load(L, load_string, &source, failure);
}

int clua_load_file(lua_State *L, const char *path, clua_failure *failure) {
    source source = {NULL, 0, path, LUA_OK};
    return load(L, load_file, &source, failure);
}

// MARK: reading tables and objects

// Stack index 1: a table. Pushes a list of its keys, each with its value behind it if `has_values`.
static int list_table(lua_State *L, bool has_values) {
    // `#` may be larger than any table.
    enum { MOST = 1 << 16 };
    lua_Unsigned elements = lua_rawlen(L, 1);
    lua_createtable(L, (elements < MOST ? (int)elements : MOST) * (has_values ? 2 : 1), 0);
    // No finalizer can change the table from here on: these calls collect garbage only if memory runs out, and Lua then runs no finalizers.
    lua_Integer count = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pushvalue(L, -2);
        lua_rawseti(L, 2, ++count);
        if (has_values)
            lua_rawseti(L, 2, ++count);
        else
            lua_pop(L, 1);
    }
    return 1;
}

static int list_keys(lua_State *L) { return lua_istable(L, 1) ? list_table(L, false) : clua_frozen_keys_here(L); }

static int list_fields(lua_State *L) { return list_table(L, true); }

// Calls a function with the value at `index` and the `key_count` values on top. The result replaces the values on top.
static int call_with(lua_State *L, lua_CFunction function, int index, int key_count, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    index = lua_absindex(L, index);
    if (!lua_checkstack(L, 4)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, function);
    lua_pushvalue(L, index);
    lua_rotate(L, -2 - key_count, -key_count);
    int status = lua_pcall(L, 1 + key_count, 1, 0);
    if (status != LUA_OK) clua_take_message(L, status, failure);
    return status;
}

int clua_list_keys(lua_State *L, int index, clua_failure *failure) { return call_with(L, list_keys, index, 0, failure); }

int clua_list_fields(lua_State *L, int index, clua_failure *failure) { return call_with(L, list_fields, index, 0, failure); }

int clua_thaw(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_thaw_here, index, 0, failure); }

int clua_frozen_field(lua_State *L, int index, clua_failure *failure) { return call_with(L, clua_frozen_field_here, index, 1, failure); }

// Stack: the address of a boolean, the object, the name of the method.
static int has_method(lua_State *L) {
    bool *has = lua_touserdata(L, 1);
    *has = lua_gettable(L, 2) == LUA_TFUNCTION || luaL_getmetafield(L, -1, "__call") != LUA_TNIL;
    return 0;
}

int clua_has_method(lua_State *L, int index, bool *has, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, has_method);
    lua_pushlightuserdata(L, has);
    lua_pushvalue(L, index);
    lua_pushvalue(L, index + 1);
    return clua_call(L, 3, 0, failure);
}

// MARK: the command line

typedef struct arguments {
    const char *const *values;
    int count;
    int script;
} arguments;

static int set_arguments(lua_State *L) {
    const arguments *arguments = lua_touserdata(L, 1);
    clua_push_real_globals(L);
    lua_pushliteral(L, "arg");
    int following = arguments->count - arguments->script - 1;
    lua_createtable(L, following > 0 ? following : 0, arguments->script + 1);
    for (int i = 0; i < arguments->count; i++) {
        lua_pushstring(L, arguments->values[i]);
        lua_rawseti(L, -2, i - arguments->script);
    }
    clua_adopt_global(L);
    return 0;
}

int clua_set_arguments(lua_State *L, const char *const *values, int count, int script, clua_failure *failure) {
    arguments arguments = {values, count, script};
    return clua_protect(L, set_arguments, &arguments, 0, failure);
}

typedef struct requirement {
    const char *name;
    const char *global;
} requirement;

static int require_module(lua_State *L) {
    const requirement *requirement = lua_touserdata(L, 1);
    lua_getglobal(L, "require");
    lua_pushstring(L, requirement->name);
    lua_call(L, 1, 1);
    lua_setglobal(L, requirement->global);
    return 0;
}

int clua_require(lua_State *L, const char *name, const char *global, clua_failure *failure) {
    requirement requirement = {name, global};
    return clua_protect(L, require_module, &requirement, 0, failure);
}

// Returns the arguments, with the checks of the `lua` command.
static int push_arguments(lua_State *L) {
    lua_settop(L, 0);
    if (lua_getglobal(L, "arg") != LUA_TTABLE) return luaL_error(L, "'arg' is not a table");
    lua_Integer count = luaL_len(L, 1);
    if (count > INT_MAX - LUA_MINSTACK) return luaL_error(L, "too many arguments to script");
    luaL_checkstack(L, (int)count + 3, "too many arguments to script");
    for (int i = 1; i <= count; i++) lua_rawgeti(L, 1, i);
    return count > 0 ? (int)count : 0;
}

int clua_push_arguments(lua_State *L, clua_failure *failure) {
    return clua_protect(L, push_arguments, NULL, LUA_MULTRET, failure);
}

// MARK: printing

// Stack: an unused context, then the values.
static int print_values(lua_State *L) {
    lua_getglobal(L, "print");
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, 0);
    return 0;
}

int clua_print(lua_State *L, int count, clua_failure *failure) {
    int first = lua_gettop(L) - count + 1;
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "too many results to print");
    lua_pushcfunction(L, print_values);
    lua_insert(L, first);
    lua_pushnil(L);
    lua_insert(L, first + 1);
    return clua_call(L, count + 1, 0, failure);
}

// MARK: console

void clua_keep_console(lua_State *L) { clua_keep(L, CLUA_KEPT_CONSOLE); }

static int push_console_function(lua_State *L) {
    const char *name = lua_touserdata(L, 1);
    if (clua_push_kept(L, CLUA_KEPT_CONSOLE) != LUA_TTABLE || lua_getfield(L, -1, name) != LUA_TFUNCTION)
        return luaL_error(L, "the session has no function '%s'", name);
    return 1;
}

int clua_call_console(lua_State *L, const char *name, int argument_count, clua_failure *failure) {
    int status = clua_protect(L, push_console_function, (void *)name, 1, failure);
    if (status != LUA_OK) {
        lua_pop(L, argument_count);
        return status;
    }
    lua_insert(L, -argument_count - 1);
    return clua_call(L, argument_count, LUA_MULTRET, failure);
}

// MARK: captures

int clua_captures(lua_State *L, int index, clua_failure *failure) {
    index = lua_absindex(L, index);
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, clua_push_captures);
    lua_pushvalue(L, index);
    return clua_call(L, 1, 1, failure);
}

// MARK: host values

// Pushes the value at `*item`, and advances `*item` past it.
static void push_item(lua_State *L, const clua_item **item) {
    const clua_item *this = (*item)++;
    luaL_checkstack(L, 8, "too many values");
    switch (this->type) {
    case LUA_TBOOLEAN: lua_pushboolean(L, this->integer != 0); break;
    case LUA_TNUMBER:
        if (this->is_integer)
            lua_pushinteger(L, this->integer);
        else
            lua_pushnumber(L, this->number);
        break;
    case LUA_TSTRING: lua_pushlstring(L, this->bytes, this->count); break;
    case LUA_TTABLE:
        lua_createtable(L, 0, (int)this->count);
        for (size_t i = 0; i < this->count; i++) {
            push_item(L, item);
            push_item(L, item);
            lua_rawset(L, -3);
        }
        break;
    case LUA_TUSERDATA: clua_push_handle(L, this->object, this->kind); break;
    default: lua_pushnil(L);
    }
}

void clua_push_items_here(lua_State *L, const clua_item *first, size_t count) {
    for (size_t i = 0; i < count; i++) push_item(L, &first);
}

typedef struct items {
    const clua_item *first;
    size_t count;
} items;

static int push_items(lua_State *L) {
    items *items = lua_touserdata(L, 1);
    lua_settop(L, 0);
    clua_push_items_here(L, items->first, items->count);
    return (int)items->count;
}

int clua_push_items(lua_State *L, const clua_item *first, size_t count, clua_failure *failure) {
    items items = {first, count};
    return clua_protect(L, push_items, &items, (int)count, failure);
}
