#include "registration.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>

#include "Calls/callback_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "callback.h"
#include "state.h"

// The reply stays as it is unless the host fills it, because clearing it would cost more than most functions do.
static int call_registered(lua_State *L, void *function) {
    clua_reply reply;
    int count = clua_state_of(L)->host->registering.call(L, function, &reply);
    return count != CLUA_REPLIED ? count : clua_answer(L, &reply);
}

// A function of the host. Upvalue: which one.
static int call_upvalue(lua_State *L) {
    void *function = lua_touserdata(L, lua_upvalueindex(1));
    if (function == NULL) return luaL_error(L, "the upvalue of a function of the host was changed");
    return call_registered(L, function);
}

static void push_function(lua_State *L, void *function) {
    lua_pushlightuserdata(L, function);
    lua_pushcclosure(L, call_upvalue, 1);
}

// Pops the value on top and assigns it to a global.
static void assign_global(lua_State *L, const char *name) {
    int value = lua_gettop(L);
    clua_push_real_globals(L);
    lua_pushstring(L, name);
    lua_pushvalue(L, value);
    clua_modules_adopt(L, "_G", -2, -1);
    clua_adopt_global(L);
    lua_settop(L, value - 1);
}

static int register_function(lua_State *L) {
    const clua_named_function *registered = lua_touserdata(L, 1);
    push_function(L, registered->function);
    assign_global(L, registered->name);
    return 0;
}

int clua_register(lua_State *L, clua_named_function function, clua_failure *failure) {
    return clua_protect(L, register_function, &function, 0, failure);
}

// MARK: classes

// Assigns functions to the fields of the table on top.
static void set_functions(lua_State *L, const clua_named_function *functions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        push_function(L, functions[i].function);
        lua_setfield(L, -2, functions[i].name);
    }
}

// Pushes a table: name -> function, as light userdata.
static void push_accessors(lua_State *L, const clua_named_function *accessors, size_t count) {
    lua_createtable(L, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        lua_pushlightuserdata(L, accessors[i].function);
        lua_setfield(L, -2, accessors[i].name);
    }
}

// Calls the accessor for the key at stack index 2. Upvalues 1 and 2: the accessors, and the one for other keys.
static int call_accessor(lua_State *L) {
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    void *accessor = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return call_registered(L, accessor != NULL ? accessor : lua_touserdata(L, lua_upvalueindex(2)));
}

// __index. Upvalue 3: the methods.
static int get_member(lua_State *L) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL) return 1;
    lua_pop(L, 1);
    return call_accessor(L);
}

static void push_metatable(lua_State *L, const clua_object_class *class) {
    lua_createtable(L, 0, (int)class->metamethod_count + 4);
    set_functions(L, class->metamethods, class->metamethod_count);
    push_accessors(L, class->getters, class->getter_count);
    lua_pushlightuserdata(L, class->get_other);
    lua_createtable(L, 0, (int)class->method_count);
    set_functions(L, class->methods, class->method_count);
    lua_pushcclosure(L, get_member, 3);
    lua_setfield(L, -2, "__index");
    push_accessors(L, class->setters, class->setter_count);
    lua_pushlightuserdata(L, class->set_other);
    lua_pushcclosure(L, call_accessor, 2);
    lua_setfield(L, -2, "__newindex");
    lua_pushstring(L, class->name);
    lua_setfield(L, -2, "__name");
    // A script that could reach the metatable could call its functions with other objects.
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

static int register_class(lua_State *L) {
    const clua_object_class *class = lua_touserdata(L, 1);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    clua_push_kept(L, CLUA_KEPT_CLASSES);
    push_metatable(L, class);
    lua_rawsetp(L, -2, class->key);
    if (class->function_count == 0) return 0;
    lua_createtable(L, 0, (int)class->function_count);
    set_functions(L, class->functions, class->function_count);
    assign_global(L, class->name);
    return 0;
}

int clua_register_class(lua_State *L, const clua_object_class *class, clua_failure *failure) {
    return clua_protect(L, register_class, (void *)class, 0, failure);
}

// MARK: modules

// A searcher of `package.searchers`. Upvalue: the host's loader, which returns the module's source and its chunk name, or nothing.
static int search_host(lua_State *L) {
    lua_settop(L, 1);
    int count = call_registered(L, lua_touserdata(L, lua_upvalueindex(1)));
    if (count == 0) {
        lua_pushfstring(L, "no module '%s' of the host", lua_tostring(L, 1));
        return 1;
    }
    size_t length;
    const char *source = luaL_checklstring(L, 2, &length);
    const char *chunk = luaL_checkstring(L, 3);
    if (luaL_loadbufferx(L, source, length, chunk, "t") != LUA_OK)
        return luaL_error(L, "error loading module '%s' of the host:\n\t%s", lua_tostring(L, 1), lua_tostring(L, -1));
    if (clua_push_kept(L, CLUA_KEPT_HOST_MODULES) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 4);
        lua_pushvalue(L, -1);
        clua_keep(L, CLUA_KEPT_HOST_MODULES);
    }
    lua_pushvalue(L, 1);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_settop(L, 4);
    lua_pushvalue(L, 3);
    return 2;
}

// Inserts the searcher at index 2 into the table on top.
static void insert_searcher(lua_State *L) {
    for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, 2);
}

// Inserts the searcher after that of `package.preload`. Stack: the loader as light userdata.
static int add_searcher(lua_State *L) {
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, search_host, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    if (lua_getfield(L, -1, "searchers") != LUA_TTABLE) return luaL_error(L, "'package.searchers' must be a table");
    insert_searcher(L);
    clua_push_kept(L, CLUA_KEPT_SEARCHERS);
    insert_searcher(L);
    return 0;
}

int clua_register_loader(lua_State *L, void *loader, clua_failure *failure) {
    return clua_protect(L, add_searcher, loader, 0, failure);
}

// MARK: names

// Stack: the name as light userdata.
static int push_named(lua_State *L) {
    const char *name = lua_touserdata(L, 1);
    clua_push_current_globals(L);
    for (const char *part = name;; part++) {
        const char *end = part;
        while (*end != '\0' && *end != '.') end++;
        lua_pushlstring(L, part, (size_t)(end - part));
        lua_gettable(L, -2);
        if (*end == '\0') return 1;
        if (lua_isnil(L, -1)) return luaL_error(L, "there is no '%s'", name);
        part = end;
    }
}

int clua_push_named(lua_State *L, const char *name, clua_failure *failure) {
    return clua_protect(L, push_named, (void *)name, 1, failure);
}

typedef struct text {
    const char *bytes;
    size_t count;
} text;

static int push_text(lua_State *L) {
    const text *text = lua_touserdata(L, 1);
    lua_pushlstring(L, text->bytes, text->count);
    return 1;
}

int clua_push_bytes(lua_State *L, const char *bytes, size_t count) {
    text text = {bytes, count};
    lua_pushcfunction(L, push_text);
    lua_pushlightuserdata(L, &text);
    int status = lua_pcall(L, 1, 1, 0);
    if (status != LUA_OK) lua_pop(L, 1);
    return status;
}
