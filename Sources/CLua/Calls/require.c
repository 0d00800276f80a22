// `require`.
//
// A body loads a module as a script does: the module's global table is that of the operation, and `package.loaded` has the module until the
// body ends. But most modules neither assign globals nor use `_G` as a table, and read only globals that are a fresh state's. Then it makes no
// difference to whom the module belongs, so all operations of the state share it: its functions get the state's own global table, and
// `package.loaded` keeps it. An operation that has other values of the globals, library functions or module fields that such a module reads
// loads the module for itself, unless it has the shared one already.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Calls/opening_raising.h"
#include "Calls/own_modules_raising.h"
#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/module_loads_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/code.h"

// Stack indices in `require`. The loader, its data and the results follow.
enum { NAME = 1, ENVIRONMENT, CALLERS_GLOBALS, LOADED_BEFORE, LAST = LOADED_BEFORE };

// A chunk in CLUA_KEPT_CHUNKS: the loader of a module and its data.
enum { LOADER = 1, DATA };

static bool is_body(lua_State *L) { return lua_istable(L, ENVIRONMENT); }

// Pushes the environment of the caller of `require`, or nil. The caller is a body, or a completion block or observer that a body has set.
static void push_environment(lua_State *L) {
    clua_push_current_globals(L);
    if (!clua_are_globals_real(L)) return;
    lua_Debug caller;
    for (int level = 1; lua_getstack(L, level, &caller); level++) {
        lua_getinfo(L, "f", &caller);
        for (int i = 1; !lua_iscfunction(L, -1) && lua_getupvalue(L, -1, i) != NULL; i++) {
            bool is_found = lua_istable(L, -1) && !lua_rawequal(L, -1, -3) && clua_is_environment(L, -1);
            if (is_found) {
                lua_replace(L, -3);
                lua_pop(L, 1);
                return;
            }
            lua_pop(L, 1);
        }
        bool is_caller = !lua_iscfunction(L, -1);
        lua_pop(L, 1);
        if (is_caller) break;
    }
    lua_pop(L, 1);
    lua_pushnil(L);
}

// MARK: sharing

// Adds a text to the set on top: the name of a global that a module reads, or of a field such as `string.format` with the name of its module or
// library. The field `*` means all fields. `field` may be NULL. Needs 3 slots.
static void add_read(lua_State *L, const char *name, size_t count, const char *field, size_t field_count) {
    lua_pushlstring(L, name, count);
    if (field != NULL) {
        lua_pushliteral(L, ".");
        lua_pushlstring(L, field, field_count);
        lua_concat(L, 3);
    }
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
}

// A module that is loaded already is required by one that is being loaded. The latter cannot be shared without the former.
static void note_loaded(lua_State *L) {
    clua_state *state = clua_state_of(L);
    if (state->loads == 0 || !state->shares_batch) return;
    int top = lua_gettop(L), reads = top + 1;
    if (clua_push_reads(L, NAME)) {
        clua_push_kept(L, CLUA_KEPT_BATCH_READS);
        lua_pushnil(L);
        while (lua_next(L, reads)) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, reads + 1);
        }
        add_read(L, lua_tostring(L, NAME), lua_rawlen(L, NAME), "*", 1);
    } else {
        state->shares_batch = clua_is_module_kept(L, NAME);
    }
    lua_settop(L, top);
}

// The number of the upvalue of the function at `loader` that is a global table; 0 if there is none.
static int environment_upvalue(lua_State *L, int loader) {
    for (int i = 1; lua_getupvalue(L, loader, i) != NULL; i++) {
        bool is_environment = lua_istable(L, -1) && clua_is_environment(L, -1);
        lua_pop(L, 1);
        if (is_environment) return i;
    }
    return 0;
}

// Adds what the loader reads to what the batch reads. Returns whether it may leave its mark on the globals.
static bool note_reads(lua_State *L, const clua_code *code, int upvalue) {
    clua_push_kept(L, CLUA_KEPT_BATCH_READS);
    for (size_t i = 0; i < code->global_read_count; i++) {
        const clua_global_read *read = &code->global_reads[i];
        if (read->upvalue == 0) add_read(L, LUA_STRLIBNAME, strlen(LUA_STRLIBNAME), read->name, read->name_count);
        if (read->upvalue != upvalue) continue;
        add_read(L, read->name, read->name_count, NULL, 0);
        add_read(L, read->name, read->name_count, read->field != NULL ? read->field : "*", read->field != NULL ? read->field_count : 1);
    }
    lua_pop(L, 1);
    return code->assigns_fields || clua_code_uses_whole(code, upvalue);
}

// Gives the environment the globals that have come along with a loader of `package.preload`, unless it has values of its own.
static void copy_overlay(lua_State *L, int globals) {
    lua_pushnil(L);
    while (lua_next(L, globals)) {
        lua_pushvalue(L, -2);
        bool is_new = lua_rawget(L, ENVIRONMENT) == LUA_TNIL;
        lua_pop(L, 1);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        if (is_new)
            lua_rawset(L, ENVIRONMENT);
        else
            lua_pop(L, 2);
    }
}

// Whether the function at `loader` is one that the operation has defined, not a chunk that was loaded for it.
static bool is_own_function(lua_State *L, int loader, int upvalue) {
    lua_Debug about;
    lua_getupvalue(L, loader, upvalue);
    bool is_own = lua_rawequal(L, -1, ENVIRONMENT);
    lua_pop(L, 1);
    lua_pushvalue(L, loader);
    lua_getinfo(L, ">S", &about);
    return is_own && strcmp(about.what, "main") != 0;
}

// The loader is this operation's own.
static void forget_chunk(lua_State *L) {
    clua_state_of(L)->shares_batch = false;
    clua_push_kept(L, CLUA_KEPT_CHUNKS);
    lua_pushvalue(L, NAME);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

// Replaces the Lua function at `loader` by one with the same code and upvalues, but with the environment as its global table. Adds to the
// batch what makes it a function of the state again.
static void give_environment(lua_State *L, int loader) {
    int top = lua_gettop(L), function = top + 1, globals = top + 2;
    clua_code *code = clua_code_of(L, loader);
    int upvalue = environment_upvalue(L, loader);
    if (upvalue == 0 || is_own_function(L, loader, upvalue)) {
        forget_chunk(L);
        return;
    }
    if (note_reads(L, code, upvalue)) clua_state_of(L)->shares_batch = false;
    if (clua_code_uses_whole(code, upvalue)) clua_fill_environment(L, ENVIRONMENT);
    clua_code_retain(code);
    clua_code_instantiate(L, code);
    clua_code_release(code);
    for (int i = 1; i <= code->upvalue_count; i++)
        if (i != upvalue) lua_upvaluejoin(L, function, i, loader, i);
    lua_getupvalue(L, loader, upvalue);
    if (lua_rawequal(L, globals, ENVIRONMENT)) {
        // The loader is kept, and must not keep the environment.
        lua_pop(L, 1);
        clua_push_real_globals(L);
        lua_pushvalue(L, globals);
        lua_setupvalue(L, loader, upvalue);
    } else if (lua_topointer(L, globals) != clua_state_of(L)->real_globals) {
        copy_overlay(L, globals);
    }
    lua_pushvalue(L, ENVIRONMENT);
    lua_setupvalue(L, function, upvalue);
    clua_push_kept(L, CLUA_KEPT_BATCH);
    lua_pushvalue(L, NAME);
    lua_pushvalue(L, function);
    lua_pushinteger(L, upvalue);
    lua_pushvalue(L, globals);
    lua_pushvalue(L, loader + 1);
    clua_pack(L, 5);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pushvalue(L, function);
    lua_replace(L, loader);
    lua_settop(L, top);
}

// Makes the modules of the batch those of all operations.
static void share_batch(lua_State *L) {
    int batch = lua_gettop(L) + 1, reads = batch + 1, module = batch + 2;
    clua_push_kept(L, CLUA_KEPT_BATCH);
    clua_push_kept(L, CLUA_KEPT_BATCH_READS);
    for (lua_Integer i = 1; lua_rawgeti(L, batch, i) == LUA_TTABLE; i++) {
        for (int j = 1; j <= 5; j++) lua_rawgeti(L, module, j);
        lua_pushvalue(L, module + 4);
        lua_setupvalue(L, module + 2, (int)lua_tointeger(L, module + 3));
        clua_adopt_module(L, module + 1);
        clua_share_module(L, module + 1, reads, module + 5);
        lua_settop(L, reads);
    }
    lua_settop(L, batch - 1);
}

static void begin_batch(lua_State *L) {
    clua_state_of(L)->shares_batch = true;
    lua_newtable(L);
    clua_keep(L, CLUA_KEPT_BATCH);
    lua_newtable(L);
    clua_keep(L, CLUA_KEPT_BATCH_READS);
}

// MARK: finding

// Pushes the loader of the module and its data.
static void find_loader(lua_State *L) {
    int package = lua_gettop(L) + 1, searchers = package + 1, message = package + 2;
    lua_getupvalue(L, lua_upvalueindex(1), 1);
    if (lua_getfield(L, package, "searchers") != LUA_TTABLE) luaL_error(L, "'package.searchers' must be a table");
    lua_pushliteral(L, "");
    for (lua_Integer i = 1; lua_rawgeti(L, searchers, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, NAME);
        lua_call(L, 1, 2);
        if (lua_isfunction(L, -2)) {
            lua_replace(L, searchers);
            lua_replace(L, package);
            lua_settop(L, searchers);
            return;
        }
        lua_pop(L, 1);
        if (lua_isstring(L, -1)) {
            lua_pushfstring(L, "%s\n\t%s", lua_tostring(L, message), lua_tostring(L, -1));
            lua_replace(L, message);
        }
        lua_settop(L, message);
    }
    luaL_error(L, "module '%s' not found:%s", lua_tostring(L, NAME), lua_tostring(L, message));
}

// Pushes the loader and its data. The state searches for a module once, unless an operation has removed it from `package.loaded`.
static void push_loader(lua_State *L) {
    int top = lua_gettop(L), chunks = top + 1, chunk = top + 2;
    bool must_search = !is_body(L) || clua_has_had_module(L, ENVIRONMENT, NAME);
    clua_push_kept(L, CLUA_KEPT_CHUNKS);
    lua_pushvalue(L, NAME);
    bool has_chunk = lua_rawget(L, chunks) == LUA_TTABLE;
    if (has_chunk && !must_search) {
        lua_rawgeti(L, chunk, LOADER);
        lua_rawgeti(L, chunk, DATA);
    } else {
        lua_settop(L, chunks);
        find_loader(L);
        // A body that searches again has the result to itself.
        if (!lua_iscfunction(L, chunks + 1) && !(has_chunk && is_body(L))) {
            lua_pushvalue(L, NAME);
            lua_pushvalue(L, chunks + 1);
            lua_pushvalue(L, chunks + 2);
            clua_pack(L, 2);
            lua_rawset(L, chunks);
        }
    }
    // The loader and its data are on top, above one or two tables.
    lua_copy(L, -2, top + 1);
    lua_rotate(L, top + 2, 1);
    lua_settop(L, top + 2);
}

// MARK: loading

// Stack: the name, the loader, its data. Returns the module and the data.
static int call_loader(lua_State *L) {
    enum { MODULE = 4, LOADED };
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 3);
    lua_call(L, 2, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, 1);
    if (!lua_isnil(L, MODULE)) {
        lua_pushvalue(L, MODULE);
        lua_settable(L, LOADED);
        lua_pushvalue(L, 1);
    }
    if (lua_gettable(L, LOADED) == LUA_TNIL) {
        lua_pushboolean(L, 1);
        lua_replace(L, -2);
        lua_pushvalue(L, 1);
        lua_pushvalue(L, -2);
        lua_settable(L, LOADED);
    }
    lua_pushvalue(L, 3);
    return 2;
}

// Removes the module of other operations from `package.loaded`, while this one loads it for itself.
static void forget_loaded(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, NAME);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

// Calls the loader, which is on top with its data. Pushes the results, or the error, and returns the status.
static int load_module(lua_State *L) {
    int loader = LAST + 1;
    clua_state *state = clua_state_of(L);
    clua_begin_loading(L, NAME, LOADED_BEFORE);
    state->loads++;
    lua_pushcfunction(L, call_loader);
    lua_pushvalue(L, NAME);
    lua_pushvalue(L, loader);
    lua_pushvalue(L, loader + 1);
    int status = lua_pcall(L, 3, LUA_MULTRET, 0);
    state->loads--;
    clua_end_loading(L, LOADED_BEFORE);
    if (status == LUA_OK) {
        clua_modules_loaded(L, NAME, state->loads == 0);
        clua_renew_snapshot(L, NAME);
    }
    return status;
}

// Loads the module for a body.
static int load_for_body(lua_State *L) {
    clua_state *state = clua_state_of(L);
    int loader = LAST + 1;
    bool is_outermost = state->loads == 0, are_libraries_same = is_outermost && !clua_are_libraries_changed(L);
    if (is_outermost) begin_batch(L);
    bool is_c = lua_iscfunction(L, loader);
    if (!is_c) give_environment(L, loader);
    int status = load_module(L);
    if (status != LUA_OK) {
        state->shares_batch = false;
    } else if (is_c) {
        // The C library is the process's, and so are many of its values.
        clua_adopt_module(L, NAME);
    }
    if (!is_outermost) return status;
    if (state->shares_batch) {
        clua_push_kept(L, CLUA_KEPT_BATCH_READS);
        state->shares_batch = !clua_has_own(L, ENVIRONMENT, lua_gettop(L));
        lua_pop(L, 1);
    }
    if (state->shares_batch) {
        share_batch(L);
        if (are_libraries_same) {
            // Now, because what the body does next must not last.
            clua_adopt_libraries(L);
            clua_restore_libraries(L);
        }
    }
    state->shares_batch = false;
    clua_note_library_code(state);
    return status;
}

// Stack as in `require`, with the environment. Upvalue: Lua's own `require`. Returns the module, and the loader's data if it was loaded now, or if
// the operation would have loaded it now.
static int require_here(lua_State *L) {
    lua_settop(L, LAST);
    clua_need_stack(L, 40);
    clua_note_requirement(L, NAME);
    clua_push_loaded(L, NAME);
    bool is_new = false;
    if (lua_toboolean(L, -1) && (!is_body(L) || clua_module_fits(L, ENVIRONMENT, NAME, &is_new))) {
        note_loaded(L);
        return is_new && clua_push_data(L, NAME) ? 2 : 1;
    }
    lua_settop(L, LAST);
    push_loader(L);
    if (is_body(L)) forget_loaded(L);
    if (clua_state_of(L)->loads == 0) clua_note_earlier_changes(L);
    int status = is_body(L) ? load_for_body(L) : load_module(L);
    if (is_body(L) && status == LUA_OK) clua_note_module(L, ENVIRONMENT, NAME, lua_gettop(L) - 1);
    clua_modules_changed(L);
    if (clua_state_of(L)->loads == 0) {
        clua_take_snapshots(L);
        clua_forget_earlier_changes(L);
    }
    return status == LUA_OK ? 2 : lua_error(L);
}

// Raises the error on top. If the caller's place is missing, adds it.
static int raise_with_place(lua_State *L) {
    size_t count;
    lua_pushfstring(L, "module '%s' not found:", lua_tostring(L, NAME));
    const char *start = lua_tolstring(L, -1, &count);
    bool is_missing = lua_type(L, -2) == LUA_TSTRING && strncmp(lua_tostring(L, -2), start, count) == 0;
    lua_pop(L, 1);
    if (is_missing) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

// Upvalue: Lua's own `require`, which knows the table `package`.
static int require_module(lua_State *L) {
    clua_state *state = clua_state_of(L);
    luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    push_environment(L);
    if (is_body(L) && strcmp(lua_tostring(L, NAME), LUA_GNAME) == 0) {
        clua_fill_environment(L, ENVIRONMENT);
        return 1;
    }
    // A prelude prepares the state, and the main state is the script's.
    if (!state->separates_globals || state->is_in_prelude) {
        lua_pushnil(L);
        lua_replace(L, ENVIRONMENT);
    }
    clua_push_current_globals(L);
    if (is_body(L))
        lua_pushvalue(L, ENVIRONMENT);
    else
        clua_push_real_globals(L);
    if (lua_rawequal(L, -1, CALLERS_GLOBALS)) return require_here(L);
    clua_set_current_globals(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushcclosure(L, require_here, 1);
    lua_pushvalue(L, NAME);
    lua_pushvalue(L, ENVIRONMENT);
    int status = lua_pcall(L, 2, LUA_MULTRET, 0);
    lua_pushvalue(L, CALLERS_GLOBALS);
    clua_set_current_globals(L);
    return status == LUA_OK ? lua_gettop(L) - CALLERS_GLOBALS : raise_with_place(L);
}

void clua_open_require(lua_State *L) {
    lua_getglobal(L, "require");
    lua_pushcclosure(L, require_module, 1);
    lua_setglobal(L, "require");
    lua_newtable(L);
    clua_keep(L, CLUA_KEPT_CHUNKS);
    clua_own_modules_open(L);
}
