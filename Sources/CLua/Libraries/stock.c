#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <pthread.h>
#include <string.h>

#include "Libraries/modules_raising.h"
#include "Libraries/stock_raising.h"

enum { MOST_MODULES = 16, MOST_FIELDS = 256, NAME_SIZE = 24 };

// A field of a library, or a global.
typedef struct field {
    char name[NAME_SIZE];
    int type;
    lua_CFunction function;  // NULL for other values
    bool is_plain;  // a function without upvalues, which is the same in all states
} field;

typedef struct library {
    char name[NAME_SIZE];
    int first, count;  // in `fields`
} library;

static library libraries[MOST_MODULES];
static field fields[MOST_FIELDS];
static int library_count, field_count;
static lua_Alloc allocator;
static bool is_listed;

// MARK: listing

static void list_field(lua_State *L, int name, int value) {
    if (lua_type(L, name) != LUA_TSTRING || field_count == MOST_FIELDS || lua_rawlen(L, name) >= NAME_SIZE) return;
    field *field = &fields[field_count++];
    strcpy(field->name, lua_tostring(L, name));
    field->type = lua_type(L, value);
    field->function = lua_tocfunction(L, value);
    field->is_plain = field->function != NULL && lua_getupvalue(L, value, 1) == NULL;
}

// Runs in a state of its own.
static int list_libraries(lua_State *L) {
    enum { LOADED = 1, LIBRARY_NAME, LIBRARY, FIELD_NAME, FIELD };
    luaL_openlibs(L);
    lua_settop(L, 0);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    while (lua_next(L, LOADED) && library_count < MOST_MODULES) {
        library *library = &libraries[library_count++];
        strncpy(library->name, lua_tostring(L, LIBRARY_NAME), NAME_SIZE - 1);
        library->first = field_count;
        lua_pushnil(L);
        while (lua_next(L, LIBRARY)) {
            list_field(L, FIELD_NAME, FIELD);
            lua_settop(L, FIELD_NAME);
        }
        library->count = field_count - library->first;
        lua_settop(L, LIBRARY_NAME);
    }
    return 0;
}

static void list(void) {
    lua_State *L = luaL_newstate();
    if (L == NULL) return;
    allocator = lua_getallocf(L, NULL);
    lua_pushcfunction(L, list_libraries);
    is_listed = lua_pcall(L, 0, 0, 0) == LUA_OK;
    lua_close(L);
}

bool clua_stock_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list);
    return is_listed;
}

lua_Alloc clua_stock_allocator(void) { return allocator; }

// MARK: changes

static const library *find_library(const char *name) {
    for (int i = 0; i < library_count; i++)
        if (strcmp(libraries[i].name, name) == 0) return &libraries[i];
    return NULL;
}

static const field *find_field(const library *library, const char *name) {
    for (int i = library->first; i < library->first + library->count; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

static void push_loaded(lua_State *L) { luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); }

// Returns false and pushes nothing if the state has lost that library.
static bool push_library(lua_State *L, const char *name) {
    push_loaded(L);
    lua_pushstring(L, name);
    bool is_table = lua_rawget(L, -2) == LUA_TTABLE;
    lua_remove(L, -2);
    if (!is_table) lua_pop(L, 1);
    return is_table;
}

// Whether the value on top is the one that a fresh state has in this field.
static bool is_stock(lua_State *L, const library *library, const field *field) {
    if (lua_type(L, -1) != field->type) return false;
    // `require` has the library `package` as an upvalue. A replacement calls the original.
    if (strcmp(field->name, "require") == 0) return true;
    if (field->function != NULL) return lua_tocfunction(L, -1) == field->function;
    if (strcmp(library->name, LUA_GNAME) != 0 || field->type != LUA_TTABLE) return true;
    bool is_same = push_library(L, field->name);
    if (is_same) {
        is_same = lua_rawequal(L, -1, -2);
        lua_pop(L, 1);
    }
    return is_same;
}

// Changes are kept as an array of tables, keys and values. The address of `nothing` stands for nil.
static const char nothing;

static void append(lua_State *L, int changes, int value) {
    lua_pushvalue(L, value);
    lua_rawseti(L, changes, (lua_Integer)lua_rawlen(L, changes) + 1);
}

// Records the field with the key at `key` and the value on top, which is popped.
static void note(lua_State *L, int changes, int table, int key) {
    int value = lua_gettop(L);
    append(L, changes, table);
    append(L, changes, key);
    append(L, changes, value);
    lua_pop(L, 1);
}

// The key and the value of a field are on top. Records and removes it, and pops the value.
static void take_away(lua_State *L, int changes, int table) {
    int key = lua_gettop(L) - 1;
    note(L, changes, table, key);
    lua_pushvalue(L, key);
    lua_pushnil(L);
    lua_rawset(L, table);
}

// Gives the library at `table` a field that it has lost.
static void put_back(lua_State *L, int changes, int table, const library *library, const field *field) {
    lua_pushstring(L, field->name);
    int key = lua_gettop(L);
    lua_pushvalue(L, key);
    bool is_lost = lua_rawget(L, table) == LUA_TNIL;
    lua_settop(L, key);
    if (field->is_plain)
        lua_pushcfunction(L, field->function);
    else if (strcmp(library->name, LUA_GNAME) != 0 || field->type != LUA_TTABLE || !push_library(L, field->name))
        is_lost = false;
    if (is_lost) {
        lua_pushlightuserdata(L, (void *)&nothing);
        note(L, changes, table, key);
        lua_rawset(L, table);
    }
    lua_settop(L, key - 1);
}

static void hide_changes_of(lua_State *L, int changes, const library *library) {
    if (!push_library(L, library->name)) return;
    int table = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        const field *field = lua_type(L, -2) == LUA_TSTRING ? find_field(library, lua_tostring(L, -2)) : NULL;
        if (field != NULL && is_stock(L, library, field))
            lua_pop(L, 1);
        else
            take_away(L, changes, table);
    }
    for (int i = library->first; i < library->first + library->count; i++) put_back(L, changes, table, library, &fields[i]);
    lua_settop(L, table - 1);
}

static void hide_modules(lua_State *L, int changes) {
    push_loaded(L);
    int loaded = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, loaded)) {
        if (lua_type(L, -2) == LUA_TSTRING && find_library(lua_tostring(L, -2)) != NULL)
            lua_pop(L, 1);
        else
            take_away(L, changes, loaded);
    }
    lua_settop(L, loaded - 1);
}

static const char metatable_key;

void clua_hide_changes(lua_State *L, int changes) {
    luaL_checkstack(L, 24, NULL);
    lua_pushglobaltable(L);
    if (lua_getmetatable(L, -1)) {
        lua_rawsetp(L, changes, &metatable_key);
        lua_pushnil(L);
        lua_setmetatable(L, -2);
    }
    lua_pop(L, 1);
    for (int i = 0; i < library_count; i++) hide_changes_of(L, changes, &libraries[i]);
    hide_modules(L, changes);
}

void clua_restore_changes(lua_State *L, int changes) {
    luaL_checkstack(L, 8, NULL);
    // Backwards: values that were put back disappear before removed ones return.
    for (lua_Integer last = (lua_Integer)lua_rawlen(L, changes); last >= 3; last -= 3) {
        for (int i = 2; i >= 0; i--) lua_rawgeti(L, changes, last - i);
        if (lua_touserdata(L, -1) == &nothing) {
            lua_pop(L, 1);
            lua_pushnil(L);
        }
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
    if (lua_rawgetp(L, changes, &metatable_key) == LUA_TTABLE) {
        lua_pushglobaltable(L);
        lua_insert(L, -2);
        lua_setmetatable(L, -2);
    }
    lua_pop(L, 1);
}

// MARK: functions that were taken before

// Pushes the function that a fresh state has in this field of the library at `library`; nil if that function is not known.
static void push_stock(lua_State *L, const field *field, int library) {
    if (field->is_plain) {
        lua_pushcfunction(L, field->function);
        return;
    }
    int result = lua_gettop(L) + 1;
    lua_getfield(L, library, field->name);
    // Our `require` has the previous one as its upvalue.
    if (strcmp(field->name, "require") != 0 || lua_getupvalue(L, result, 1) == NULL || !lua_isfunction(L, -1)) lua_pushnil(L);
    lua_replace(L, result);
    lua_settop(L, result);
}

void clua_index_stock_functions(lua_State *L) {
    luaL_checkstack(L, 16, NULL);
    for (int i = 0; i < library_count; i++) {
        if (!push_library(L, libraries[i].name)) continue;
        int table = lua_gettop(L), name = table + 1, stock = table + 2;
        for (int j = libraries[i].first; j < libraries[i].first + libraries[i].count; j++) {
            if (fields[j].function == NULL) continue;
            lua_pushstring(L, fields[j].name);
            push_stock(L, &fields[j], table);
            lua_pushvalue(L, name);
            lua_rawget(L, table);
            if (!lua_isnil(L, stock) && !lua_rawequal(L, stock, -1)) clua_modules_adopt(L, libraries[i].name, name, stock);
            lua_settop(L, table);
        }
        lua_settop(L, table - 1);
    }
}
