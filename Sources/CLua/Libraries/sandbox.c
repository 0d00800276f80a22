// Takes functions away that untrusted scripts must not have.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <stdbool.h>
#include <string.h>

#include "Libraries/libraries_raising.h"
#include "libraries.h"
#include "state.h"

// NULL ends `names`.
static void remove_fields(lua_State *L, const char *library, const char *const *names) {
    lua_getglobal(L, library);
    for (; *names != NULL && lua_istable(L, -1); names++) {
        lua_pushnil(L);
        lua_setfield(L, -2, *names);
    }
    lua_pop(L, 1);
}

static void remove_library(lua_State *L, const char *library) {
    lua_pushnil(L);
    lua_setglobal(L, library);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    lua_setfield(L, -2, library);
    lua_pop(L, 1);
}

static void remove_files(lua_State *L) {
    static const char *const os[] = {"remove", "rename", "tmpname", NULL}, *const globals[] = {"dofile", "loadfile", NULL};
    static const char *const package[] = {"searchpath", NULL};  // opens each file that it looks for
    remove_fields(L, LUA_LOADLIBNAME, package);
    remove_fields(L, LUA_OSLIBNAME, os);
    remove_fields(L, LUA_GNAME, globals);
    remove_library(L, LUA_IOLIBNAME);
}

enum { MAX_DATE_FORMAT = 1000 };

// Upvalue: Lua's `os.date`, which needs time for each conversion.
static int date(lua_State *L) {
    size_t length = 0;
    luaL_optlstring(L, 1, "", &length);
    luaL_argcheck(L, length <= MAX_DATE_FORMAT, 1, "format longer than 1000 bytes");
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static void remove_system(lua_State *L) {
    static const char *const io[] = {"popen", NULL}, *const globals[] = {"warn", NULL};
    static const char *const os[] = {"execute", "exit", "getenv", "setlocale", NULL};
    remove_fields(L, LUA_IOLIBNAME, io);
    remove_fields(L, LUA_OSLIBNAME, os);
    remove_fields(L, LUA_GNAME, globals);
    lua_getglobal(L, LUA_OSLIBNAME);
    lua_getfield(L, -1, "date");
    lua_pushcclosure(L, date, 1);
    lua_setfield(L, -2, "date");
    lua_pop(L, 1);
}

// Leaves only `load`, which checks the state's restrictions.
static void remove_bytecode(lua_State *L) {
    static const char *const string[] = {"dump", NULL}, *const globals[] = {"dofile", "loadfile", NULL};
    remove_fields(L, LUA_STRLIBNAME, string);
    remove_fields(L, LUA_GNAME, globals);
}

// Keeps the searchers of `package.searchers` that are marked.
static void keep_searchers(lua_State *L, bool keeps_files, bool keeps_c) {
    lua_getglobal(L, LUA_LOADLIBNAME);
    lua_getfield(L, -1, "searchers");
    int searchers = lua_gettop(L);
    const bool keeps[] = {true, keeps_files, keeps_c, keeps_c};
    int kept = 0;
    for (int i = 1; i <= 4; i++) {
        lua_rawgeti(L, searchers, i);
        lua_pushnil(L);
        lua_rawseti(L, searchers, i);
        if (keeps[i - 1])
            lua_rawseti(L, searchers, ++kept);
        else
            lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

static void empty_path(lua_State *L, const char *name) {
    lua_getglobal(L, LUA_LOADLIBNAME);
    lua_pushliteral(L, "");
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

// Upvalue: Lua's `setmetatable`. Lua looks for a finalizer only when a metatable is set.
static int set_metatable(lua_State *L) {
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL) return luaL_error(L, "the host of this script allows no finalizers (__gc)");
        lua_pop(L, 1);
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Upvalue: `collectgarbage`, a closure itself.
static int collect_garbage(lua_State *L) {
    const char *option = luaL_optstring(L, 1, "collect");
    if (strcmp(option, "collect") != 0 && strcmp(option, "count") != 0 && strcmp(option, "isrunning") != 0)
        return luaL_error(L, "the host of this script does not allow collectgarbage '%s'", option);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static void replace_global(lua_State *L, const char *name, lua_CFunction function) {
    lua_getglobal(L, name);
    lua_pushcclosure(L, function, 1);
    lua_setglobal(L, name);
}

void clua_restrict(lua_State *L) {
    unsigned restrictions = clua_state_of(L)->restrictions;
    static const char *const loadlib[] = {"loadlib", NULL};
    if (restrictions & CLUA_NO_FILES) remove_files(L);
    if (restrictions & CLUA_NO_SYSTEM) remove_system(L);
    if (restrictions & CLUA_NO_DEBUG) remove_library(L, LUA_DBLIBNAME);
    if (restrictions & CLUA_NO_BYTECODE) remove_bytecode(L);
    if (restrictions & CLUA_NO_MODULE_FILES) empty_path(L, "path");
    if (restrictions & CLUA_NO_C_MODULES) {
        empty_path(L, "cpath");
        remove_fields(L, LUA_LOADLIBNAME, loadlib);
    }
    if (restrictions & (CLUA_NO_MODULE_FILES | CLUA_NO_C_MODULES))
        keep_searchers(L, !(restrictions & CLUA_NO_MODULE_FILES), !(restrictions & CLUA_NO_C_MODULES));
    if (restrictions & CLUA_NO_FINALIZERS) replace_global(L, "setmetatable", set_metatable);
    if (restrictions & CLUA_NO_COLLECTOR) replace_global(L, "collectgarbage", collect_garbage);
    clua_state_of(L)->checks_libraries_always = (restrictions & ~(unsigned)CLUA_NO_ENVIRONMENT) != 0;
}
