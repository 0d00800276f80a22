#include "class.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "values.h"

// Keys in the metatable of a class: the handle of its object, or the name of a built-in class; its superclass; the version of its contents;
// whether this state owns the class.
static const char object_key, parent_key, version_key, home_key;

// MARK: class identity

void clua_mark_built_in_class(lua_State *L, const char *name) {
    lua_getmetatable(L, -1);
    lua_pushlightuserdata(L, (void *)name);
    lua_rawsetp(L, -2, &object_key);
    lua_pop(L, 1);
}

// Pushes the field `key` from the metatable of the class at `index`. Returns false and pushes nothing if the value is no class.
static bool push_of_class(lua_State *L, int index, const void *key) {
    if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return false;
    if (lua_rawgetp(L, -1, &object_key) == LUA_TNIL) {
        lua_pop(L, 2);
        return false;
    }
    if (key != &object_key) {
        lua_pop(L, 1);
        lua_rawgetp(L, -1, key);
    }
    lua_remove(L, -2);
    return true;
}

bool clua_push_parent(lua_State *L, int index) { return push_of_class(L, index, &parent_key); }

clua_handle *clua_class_handle(lua_State *L, int index) {
    if (!push_of_class(L, index, &object_key)) return NULL;
    clua_handle *handle = lua_type(L, -1) == LUA_TUSERDATA ? lua_touserdata(L, -1) : NULL;
    lua_pop(L, 1);
    return handle;
}

clua_class_identity clua_identify_class(lua_State *L, int index) {
    clua_class_identity identity = {NULL, NULL};
    if (!lua_checkstack(L, 3) || !push_of_class(L, index, &object_key)) return identity;
    if (lua_type(L, -1) == LUA_TLIGHTUSERDATA)
        identity.built_in = lua_touserdata(L, -1);
    else
        identity.object = ((clua_handle *)lua_touserdata(L, -1))->object;
    lua_pop(L, 1);
    return identity;
}

// MARK: creation

// Registers the class table on top under its object.
static void remember(lua_State *L, const void *object) {
    clua_push_kept(L, CLUA_KEPT_CLASSES);
    lua_pushvalue(L, -2);
    lua_rawsetp(L, -2, object);
    lua_pop(L, 1);
}

void clua_push_known_class(lua_State *L, const void *object) {
    clua_push_kept(L, CLUA_KEPT_CLASSES);
    lua_rawgetp(L, -1, object);
    lua_remove(L, -2);
}

void clua_adopt_class(lua_State *L, const void *object) {
    clua_push_known_class(L, object);
    bool is_known = !lua_isnil(L, -1);
    lua_pop(L, 1);
    if (!is_known) remember(L, object);
}

static int describe_class(lua_State *L) {
    const char *name = luaL_getmetafield(L, 1, "__name") == LUA_TSTRING ? lua_tostring(L, -1) : "?";
    lua_pushfstring(L, "class %s", name);
    return 1;
}

static int call_host(lua_State *L, clua_function function, int member) { return clua_state_of(L)->call_host(L, function, member); }

// __newindex of a class. The host rejects invalid names.
static int assign_field(lua_State *L) {
    lua_settop(L, 3);
    call_host(L, clua_state_of(L)->host->assign_class_field, 0);
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 0;
}

static int return_operation(lua_State *L, int status, lua_KContext operation) {
    (void)status;
    lua_settop(L, (int)operation);
    return 1;
}

// Upvalue: the class. Creates an operation and calls the class's `init` on it.
static int new_operation(lua_State *L) {
    if (lua_rawequal(L, 1, lua_upvalueindex(1))) {
        lua_getmetatable(L, 1);
        lua_getfield(L, -1, "__name");
        return luaL_error(L, "call 'new' with '.', as in %s.new(...)", lua_tostring(L, -1));
    }
    luaL_checkstack(L, lua_gettop(L) + LUA_MINSTACK, "too many arguments");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    clua_push_class_field(L, 1, "start");
    bool has_start = !lua_isnil(L, -1);
    lua_pop(L, 1);
    call_host(L, clua_state_of(L)->host->new_operation, has_start);
    lua_replace(L, 1);
    // Stack: operation, arguments.
    int count = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    clua_push_class_field(L, count + 1, "init");
    lua_replace(L, count + 1);
    if (lua_isnil(L, count + 1)) {
        lua_settop(L, 1);
        return 1;
    }
    lua_pushvalue(L, 1);
    lua_insert(L, 1);
    lua_insert(L, 2);
    // Stack: operation, init, operation, arguments.
    lua_callk(L, count, 0, 1, return_operation);
    return return_operation(L, LUA_OK, 1);
}

static void push_metatable(lua_State *L, void *object, int kind) {
    lua_createtable(L, 0, 8);
    clua_push_handle(L, object, kind);
    lua_rawsetp(L, -2, &object_key);
    lua_pushinteger(L, 0);
    lua_rawsetp(L, -2, &version_key);
    lua_pushcfunction(L, assign_field);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, describe_class);
    lua_setfield(L, -2, "__tostring");
    // A script that could reach the metatable could break what the host relies on.
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

void clua_push_class(lua_State *L, void *object, int kind) {
    clua_push_known_class(L, object);
    if (!lua_isnil(L, -1)) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, new_operation, 1);
    lua_setfield(L, -2, "new");
    push_metatable(L, object, kind);
    lua_setmetatable(L, -2);
    remember(L, object);
}

// Gives the class at `index` the name and the superclass on top, and pops both.
static void set_parent(lua_State *L, int index) {
    lua_getmetatable(L, index);
    lua_insert(L, -3);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "__index");
    lua_rawsetp(L, -3, &parent_key);
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
}

void clua_make_class(lua_State *L, void *object, int kind, const char *name, int parent) {
    clua_push_class(L, object, kind);
    int class = lua_gettop(L);
    lua_pushstring(L, name);
    lua_pushvalue(L, parent);
    set_parent(L, class);
    lua_getmetatable(L, class);
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, &home_key);
    lua_pop(L, 1);
}

// MARK: contents

// Whether the key on top is a field that never leaves the state.
static bool is_own(lua_State *L) {
    size_t count;
    const char *name = clua_string(L, -1, &count);
    return name != NULL && count == 3 && memcmp(name, "new", 3) == 0;
}

lua_Integer clua_push_class_contents(lua_State *L, int index) {
    int class = lua_absindex(L, index);
    lua_createtable(L, 0, 8);
    int contents = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, class)) {
        lua_pushvalue(L, -2);
        bool stays = is_own(L);
        lua_insert(L, -2);
        if (stays)
            lua_pop(L, 2);
        else
            lua_rawset(L, contents);
    }
    lua_getmetatable(L, class);
    int metatable = lua_gettop(L);
    lua_rawgetp(L, metatable, &version_key);
    lua_rawgetp(L, metatable, &home_key);
    lua_Integer version = lua_tointeger(L, -2) + lua_toboolean(L, -1);
    lua_pushinteger(L, version);
    lua_rawsetp(L, metatable, &version_key);
    lua_settop(L, metatable);
    lua_getfield(L, metatable, "__name");
    lua_rawgetp(L, metatable, &parent_key);
    lua_remove(L, metatable);
    return version;
}

static void clear(lua_State *L, int class) {
    lua_pushnil(L);
    while (lua_next(L, class)) {
        lua_pop(L, 1);
        if (is_own(L)) continue;
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, class);
    }
}

// Raises if the superclass on top inherits from the class at `class`. No script can build such a cycle.
static void check_parent(lua_State *L, int class) {
    int parent = lua_gettop(L) + 1;
    lua_pushvalue(L, -1);
    do {
        if (lua_rawequal(L, parent, class)) luaL_error(L, "malformed parcel");
        lua_settop(L, parent);
        if (!clua_push_parent(L, parent)) break;
        lua_replace(L, parent);
    } while (lua_istable(L, parent));
    lua_settop(L, parent - 1);
}

void clua_set_class_contents(lua_State *L, int index, lua_Integer version, bool is_forced) {
    int class = lua_absindex(L, index), base = lua_gettop(L) - 3;
    lua_getmetatable(L, class);
    lua_rawgetp(L, -1, &home_key);
    lua_rawgetp(L, -2, &version_key);
    bool is_newer = !lua_toboolean(L, -2) && (is_forced || version > lua_tointeger(L, -1));
    lua_pop(L, 2);
    if (is_newer) {
        lua_pushinteger(L, version);
        lua_rawsetp(L, -2, &version_key);
        lua_pop(L, 1);
        check_parent(L, class);
        set_parent(L, class);
        clear(L, class);
        lua_pushnil(L);
        while (lua_next(L, base + 1)) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, class);
        }
    }
    lua_settop(L, base);
}

// MARK: lookup

void clua_find_in_class(lua_State *L, int index) {
    int key = lua_gettop(L);
    lua_pushvalue(L, index);
    while (clua_class_handle(L, key + 1) != NULL) {
        lua_pushvalue(L, key);
        if (lua_rawget(L, key + 1) != LUA_TNIL) break;
        lua_settop(L, key + 1);
        if (!clua_push_parent(L, key + 1)) break;
        lua_replace(L, key + 1);
    }
    if (lua_gettop(L) == key + 1) lua_pushnil(L);
    lua_replace(L, key);
    lua_settop(L, key);
}

void clua_push_class_field(lua_State *L, int index, const char *name) {
    index = lua_absindex(L, index);
    lua_pushstring(L, name);
    clua_find_in_class(L, index);
}

bool clua_class_has(lua_State *L, int operation, int key) {
    clua_handle *handle = clua_to_handle(L, operation);
    if (handle == NULL || handle->class_object == NULL || !lua_checkstack(L, 8)) return false;
    int top = lua_gettop(L);
    clua_push_known_class(L, handle->class_object);
    lua_pushvalue(L, key);
    clua_find_in_class(L, top + 1);
    bool has = !lua_isnil(L, -1);
    lua_settop(L, top);
    return has;
}
