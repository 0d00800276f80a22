// How a host application uses a state besides running bodies. Every function here runs in protected mode with only C frames below it, and
// leaves the stack unchanged unless noted.
#ifndef CLUA_APPLICATION_H
#define CLUA_APPLICATION_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "protect.h"

/// Compiles `bytes` and pushes the function. `name` is a chunk name in the manual's sense ("=stdin", "@file").
int clua_load_string(lua_State *L, const char *bytes, size_t count, const char *name, clua_failure *failure);

/// Compiles a file, or standard input if `path` is NULL, and pushes the function.
int clua_load_file(lua_State *L, const char *path, clua_failure *failure);

/// A host value in flat form: the `count` pairs of a table, key and value, follow it.
typedef struct clua_item {
    int type;  // LUA_TNIL, LUA_TBOOLEAN (integer), LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE or LUA_TUSERDATA
    bool is_integer;
    int kind;
    lua_Integer integer;
    lua_Number number;
    const char *bytes;
    size_t count;
    void *object;
} clua_item;

/// Whether the object at `index` has a method with the name at `index + 1`. The lookup may call metamethods, which may fail.
int clua_has_method(lua_State *L, int index, bool *has, clua_failure *failure);

/// Prints the top `count` values with the script's own `print`, and pops them.
int clua_print(lua_State *L, int count, clua_failure *failure);

/// Pops a table of functions, which clua_call_console finds by name. Never raises.
void clua_keep_console(lua_State *L);

/// Calls a function of the kept table with the top `argument_count` values, and pops these. Pushes its results.
int clua_call_console(lua_State *L, const char *name, int argument_count, clua_failure *failure);

/// Pushes an array of records that say what would be sent with the function at `index`, and which parts cannot be sent.
int clua_captures(lua_State *L, int index, clua_failure *failure);

/// The settings that a script may make for all operations. The numbers are bits.
typedef enum clua_setting {
    CLUA_PATHS = 1,   // `package.path`, `package.cpath` and the global `arg`
    CLUA_LOADERS = 2  // `package.preload` and `package.searchers`; set after the paths, which they may need
} clua_setting;

/// Encode a setting into a parcel, and set it from that. A loader or searcher that cannot be sent becomes one that says so.
int clua_encode_settings(lua_State *L, clua_setting setting, clua_parcel *parcel, clua_failure *failure);
int clua_apply_settings(lua_State *L, const clua_parcel *parcel, clua_failure *failure);

/// Creates the global `arg`: `arguments[script]` is at index 0, earlier arguments are at negative indices.
int clua_set_arguments(lua_State *L, const char *const *arguments, int count, int script, clua_failure *failure);

/// Pushes the values at 1, 2, 3 … of the global `arg`.
int clua_push_arguments(lua_State *L, clua_failure *failure);

/// Calls `require(name)` and assigns the result to the global `global`.
int clua_require(lua_State *L, const char *name, const char *global, clua_failure *failure);

/// The settings, as bits, that have changed since they were encoded. Never raises.
unsigned clua_changed_settings(lua_State *L);

/// Pushes the `count` values that start at `first`.
int clua_push_items(lua_State *L, const clua_item *first, size_t count, clua_failure *failure);

/// Pushes a list of the keys of the table at `index`, which may be frozen.
int clua_list_keys(lua_State *L, int index, clua_failure *failure);

/// Pushes a list of the keys and values of the table at `index`: a key, its value, the next key …
int clua_list_fields(lua_State *L, int index, clua_failure *failure);

/// Pushes an ordinary copy of the frozen table at `index`.
int clua_thaw(lua_State *L, int index, clua_failure *failure);

/// Replaces the key on top by the value that the frozen table at `index` has for it.
int clua_frozen_field(lua_State *L, int index, clua_failure *failure);

#endif
