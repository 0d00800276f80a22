// The order in which the modules of a state were loaded.
#include "Libraries/module_loads_raising.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/registry_raising.h"
#include "Libraries/private_tables_raising.h"

// The number of a load: loads are numbered when they end. OUTERMOST marks those that no other load contains. 0 if the module was not loaded by
// `require`.
static const lua_Integer OUTERMOST = (lua_Integer)1 << 32;

static lua_Integer name_rank(lua_State *L, int name) {
    lua_Integer rank = 0;
    if (clua_push_kept(L, CLUA_KEPT_MODULE_LOADS) == LUA_TTABLE) {
        lua_getfield(L, -1, lua_tostring(L, name));
        rank = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return rank;
}

lua_Integer clua_load_number(lua_State *L, int name) { return name_rank(L, name) & (OUTERMOST - 1); }

void clua_modules_loaded(lua_State *L, int name, bool is_outermost) {
    luaL_checkstack(L, 12, NULL);
    name = lua_absindex(L, name);
    if (clua_push_kept(L, CLUA_KEPT_MODULE_LOADS) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        clua_keep(L, CLUA_KEPT_MODULE_LOADS);
    }
    lua_pushinteger(L, (lua_Integer)++clua_state_of(L)->load_count + (is_outermost ? OUTERMOST : 0));
    lua_setfield(L, -2, lua_tostring(L, name));
    lua_pop(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, lua_tostring(L, name));
    clua_find_private_tables(L, name);
    lua_pop(L, 2);
}

bool clua_is_better_name(lua_State *L, int name, int other) {
    lua_Integer rank = name_rank(L, name), other_rank = name_rank(L, other);
    if (rank != other_rank) return rank > other_rank;
    size_t count, other_count;
    const char *text = lua_tolstring(L, name, &count), *other_text = lua_tolstring(L, other, &other_count);
    return count != other_count ? count < other_count : strcmp(text, other_text) < 0;
}

bool clua_push_outer_module(lua_State *L, int name) {
    int top = lua_gettop(L), outer = top + 1, loads = top + 2, other = top + 3;
    lua_Integer number = clua_load_number(L, name), best = 0;
    lua_pushnil(L);
    if (name_rank(L, name) < OUTERMOST && number != 0 && clua_push_kept(L, CLUA_KEPT_MODULE_LOADS) == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, loads)) {
            lua_Integer rank = lua_tointeger(L, -1) - OUTERMOST;
            lua_settop(L, other);
            if (rank < number || (best != 0 && rank > best)) continue;
            best = rank;
            lua_copy(L, other, outer);
        }
    }
    lua_settop(L, best != 0 ? outer : top);
    return best != 0;
}
