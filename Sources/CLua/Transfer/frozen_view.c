// Views: how a state sees frozen tables.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Objects/collections_raising.h"
#include "Transfer/frozen.h"
#include "Limits/ledger_raising.h"
#include "Transfer/parcel_format.h"
#include "freezing.h"
#include "ledger.h"
#include "object.h"

// A view has no finalizer, as handles have none: the state's allocator notices that Lua frees it. Its block has the size of a handle's, so that
// other blocks cost nothing.
typedef struct view {
    uint64_t mark;  // this process's secret and the address: no other userdata has it
    const frozen_table *table;  // retained
    union {
        uint32_t lookups;     // of a cold view: the lookups since it became cold
        uint32_t hot_values;  // of a hot view: the values in its table
    };
    uint32_t patience;  // so many lookups make a cold view hot
} view;

// A view that is asked for many values becomes *hot*: it gets a metatable of its own, in which __index is a table. That table has the values that
// were read before. Lua finds them without a call, in a fourth of the time. If too many different values are read, the view becomes cold again:
// values that are read once would only fill the table. The view then waits for more lookups than before until it becomes hot.
enum { HOT_LOOKUPS = 64, PATIENCE_GROWTH = 16, MOST_HOT_VALUES = 256 };

_Static_assert(sizeof(view) == sizeof(clua_handle), "views and handles have the same size");

static uint64_t mark_of(const view *view) { return clua_frozen_secret ^ (uint64_t)(uintptr_t)view; }

static inline view *to_view(lua_State *L, int index) {
    view *view = lua_touserdata(L, index);
    return view == NULL || lua_rawlen(L, index) != sizeof *view || view->mark != mark_of(view) ? NULL : view;
}

const frozen_table *clua_to_frozen(lua_State *L, int index) {
    const view *view = to_view(L, index);
    return view == NULL ? NULL : view->table;
}

bool clua_is_frozen(lua_State *L, int index) { return clua_to_frozen(L, index) != NULL; }

lua_Integer clua_frozen_count(lua_State *L, int index) {
    const frozen_table *table = clua_to_frozen(L, index);
    return table != NULL ? table->element_count : 0;
}

void clua_share_nothing(lua_State *L) { clua_state_of(L)->shares_nothing = true; }

// MARK: lifetime

static void stop_charging(clua_state *state, clua_frozen *owner) {
    state->used_bytes -= owner->charged;
    atomic_store_explicit(&owner->home, NULL, memory_order_relaxed);
}

void clua_frozen_view_is_freed(clua_state *state, void *block) {
    view *view = (struct view *)((char *)block + state->handles.block_size) - 1;
    if (view->mark != mark_of(view)) return;
    view->mark = 0;
    clua_frozen *owner = view->table->owner;
    if (atomic_load_explicit(&owner->home, memory_order_relaxed) == state && --owner->home_views == 0) stop_charging(state, owner);
    if (atomic_fetch_sub_explicit(&owner->references, 1, memory_order_acq_rel) > 1) return;
    // Lua is in the middle of a collection, so no foreign code may run now.
    if (owner->has_objects) {
        owner->next = state->dead_frozen;
        state->dead_frozen = owner;
    } else {
        clua_frozen_destroy(owner);
    }
}

void clua_destroy_dead_frozen(clua_state *state) {
    while (state->dead_frozen != NULL) {
        clua_frozen *owner = state->dead_frozen;
        state->dead_frozen = owner->next;
        clua_frozen_destroy(owner);
    }
}

// Pushes the weak table that has the view of each frozen table.
static void push_views(lua_State *L) {
    if (clua_push_kept(L, CLUA_KEPT_FROZEN) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 4);
    clua_push_kept(L, CLUA_KEPT_WEAK_METATABLE);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_FROZEN);
}

static void push_view_metatable(lua_State *L);

// Stack: the weak table. Pushes the view if there is one.
static bool push_existing(lua_State *L, const frozen_table *table) {
    lua_rawgetp(L, -1, table);
    if (clua_to_frozen(L, -1) == table) return true;
    lua_pop(L, 1);
    return false;
}

void clua_push_frozen(lua_State *L, const frozen_table *table) {
    clua_need_stack(L, 8);
    push_views(L);
    if (!push_existing(L, table)) {
        clua_state *state = clua_state_of(L);
        if (table->owner->has_objects) clua_need_watcher(L);
        view *view = lua_newuserdatauv(L, sizeof *view, CLUA_USER_VALUE_COUNT);
        *view = (struct view){.patience = HOT_LOOKUPS};
        // A finalizer may have made a view meanwhile.
        lua_insert(L, -2);
        if (push_existing(L, table)) {
            lua_replace(L, -3);
            lua_pop(L, 1);
            return;
        }
        lua_insert(L, -2);
        // Stack: the weak table, the view.
        clua_frozen_retain(table);
        view->table = table;
        view->mark = mark_of(view);
        state->has_frozen = true;
        if (atomic_load_explicit(&table->owner->home, memory_order_relaxed) == state) table->owner->home_views++;
        push_view_metatable(L);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, table);
    }
    lua_remove(L, -2);
}

// MARK: reading

static inline view *check_view(lua_State *L, int index) {
    view *view = to_view(L, index);
    if (view == NULL) luaL_typeerror(L, index, "frozen table");
    return view;
}

static const frozen_table *check(lua_State *L, int index) { return check_view(L, index)->table; }

// Pushes the value of a leaf, which each state makes for itself.
static void push_leaf(lua_State *L, const frozen_value *value) {
    frozen_leaf *leaf = value->leaf;
    clua_need_stack(L, 12);
    int base = lua_gettop(L);
    if (value->tag == FROZEN_NAMED) {
        lua_pushlstring(L, leaf->module->bytes, leaf->module->count);
        if (leaf->field != NULL) lua_pushlstring(L, leaf->field->bytes, leaf->field->count);
        clua_push_module(L, base + 1, leaf->field != NULL ? base + 2 : 0);
        lua_replace(L, base + 1);
        lua_settop(L, base + 1);
        return;
    }
    // A function is made anew each time, because its globals are those of the caller.
    if (clua_decode(L, &leaf->parcel, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
}

// Pushes a value, or nil for none. Returns 1.
static int push_value(lua_State *L, const frozen_value *value) {
    switch (value != NULL ? value->tag : FROZEN_NIL) {
    case FROZEN_NIL: lua_pushnil(L); break;
    case FROZEN_FALSE: lua_pushboolean(L, 0); break;
    case FROZEN_TRUE: lua_pushboolean(L, 1); break;
    case FROZEN_INTEGER: lua_pushinteger(L, value->integer); break;
    case FROZEN_FLOAT: lua_pushnumber(L, value->number); break;
    case FROZEN_STRING: lua_pushlstring(L, value->string->bytes, value->string->count); break;
    case FROZEN_TABLE: clua_push_frozen(L, value->table); break;
    default: push_leaf(L, value);
    }
    return 1;
}

static const frozen_value *find_float(const frozen_table *table, lua_Number number) {
    lua_Integer integer;
    if (lua_numbertointeger(number, &integer) && (lua_Number)integer == number) return frozen_find_integer(table, integer);
    return frozen_find(table, &(frozen_value){.number = number, .tag = FROZEN_FLOAT});
}

// The value for a key that travels by name.
static const frozen_value *find_named(lua_State *L, const frozen_table *table, int index) {
    luaL_checkstack(L, 16, NULL);
    if (!clua_module_name(L, index)) return NULL;
    frozen_string module, field;
    module.bytes = lua_tolstring(L, -2, &module.count);
    module.hash = frozen_hash(module.bytes, module.count);
    bool has_field = !lua_isnil(L, -1);
    if (has_field) {
        field.bytes = lua_tolstring(L, -1, &field.count);
        field.hash = frozen_hash(field.bytes, field.count);
    }
    frozen_leaf leaf = {.module = &module, .field = has_field ? &field : NULL};
    const frozen_value *value = frozen_find(table, &(frozen_value){.leaf = &leaf, .tag = FROZEN_NAMED});
    lua_pop(L, 2);
    return value;
}

// The value for the key at stack index 2.
static inline const frozen_value *find(lua_State *L, const frozen_table *table) {
    size_t count;
    const char *bytes;
    switch (lua_type(L, 2)) {
    case LUA_TSTRING:
        bytes = lua_tolstring(L, 2, &count);
        return frozen_find_string(table, bytes, count);
    case LUA_TNUMBER:
        return lua_isinteger(L, 2) ? frozen_find_integer(table, lua_tointeger(L, 2)) : find_float(table, lua_tonumber(L, 2));
    case LUA_TBOOLEAN: return frozen_find(table, &(frozen_value){.tag = lua_toboolean(L, 2) ? FROZEN_TRUE : FROZEN_FALSE});
    case LUA_TNIL: return NULL;
    default: break;
    }
    if (table->pair_count == 0) return NULL;
    const frozen_table *key = clua_to_frozen(L, 2);
    if (key != NULL) return frozen_find(table, &(frozen_value){.table = key, .tag = FROZEN_TABLE});
    const clua_handle *handle = clua_to_handle(L, 2);
    if (handle == NULL) return find_named(L, table, 2);
    frozen_leaf leaf = {.identity = handle->object};
    return frozen_find(table, &(frozen_value){.leaf = &leaf, .tag = FROZEN_OBJECT});
}

static void become_cold(lua_State *L, int index, view *view) {
    push_view_metatable(L);
    lua_setmetatable(L, index);
    view->lookups = 0;
    if (view->patience < UINT32_MAX / PATIENCE_GROWTH) view->patience *= PATIENCE_GROWTH;
}

// The __index of the table of a hot view, for the values that the table lacks. Stack: that table, a key. Upvalue: the view.
static int get_missing_value(lua_State *L) {
    view *view = check_view(L, lua_upvalueindex(1));
    const frozen_value *value = find(L, view->table);
    push_value(L, value);
    bool is_kept = value != NULL && value->tag <= FROZEN_TABLE
        && (value->tag != FROZEN_STRING || value->string->count <= CLUA_MAX_KEPT_STRING);
    if (!is_kept || (lua_type(L, 2) != LUA_TSTRING && !lua_isinteger(L, 2)) || !lua_istable(L, 1)) return 1;
    if (view->hot_values >= MOST_HOT_VALUES) {
        become_cold(L, lua_upvalueindex(1), view);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, 1);
    view->hot_values++;
    return 1;
}

// Stack: the view, the key.
static void become_hot(lua_State *L, view *view) {
    push_view_metatable(L);
    clua_push_copy(L, -1);
    lua_createtable(L, 0, 4);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, get_missing_value, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, 1);
    lua_settop(L, 2);
    view->hot_values = 0;
}

static int get_value(lua_State *L) {
    view *view = check_view(L, 1);
    if (++view->lookups >= view->patience) become_hot(L, view);
    return push_value(L, find(L, view->table));
}

int clua_frozen_field_here(lua_State *L) { return push_value(L, find(L, check(L, 1))); }

int clua_frozen_keys_here(lua_State *L) {
    const frozen_table *table = check(L, 1);
    lua_Integer count = 0;
    lua_createtable(L, (int)((table->element_count + table->pair_count) & INT32_MAX), 0);
    for (uint32_t i = 0; i < table->element_count; i++) {
        if (table->elements[i].tag == FROZEN_NIL) continue;
        lua_pushinteger(L, (lua_Integer)i + 1);
        lua_rawseti(L, 2, ++count);
    }
    for (uint32_t i = 0; i < table->pair_count; i++) {
        push_value(L, &table->pairs[i].key);
        lua_rawseti(L, 2, ++count);
    }
    return 1;
}

static int get_length(lua_State *L) {
    lua_pushinteger(L, check(L, 1)->element_count);
    return 1;
}

static int refuse_assignment(lua_State *L) {
    check(L, 1);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
    if (key != NULL) return luaL_error(L, "field '%s' of a frozen table cannot be assigned; opscript.thaw returns a copy that can be changed", key);
    return luaL_error(L, "a frozen table cannot be changed; opscript.thaw returns a copy that can");
}

// The function of pairs. Stack: the view, the previous key.
static int next_pair(lua_State *L) {
    const frozen_table *table = check(L, 1);
    lua_settop(L, 2);
    lua_Unsigned position = 0;  // of the next one: the elements come before the pairs
    if (!lua_isnil(L, 2)) {
        const frozen_value *value = find(L, table);
        if (value == NULL) return luaL_error(L, "invalid key to the iteration of a frozen table");
        bool is_element = value >= table->elements && value < table->elements + table->element_count;
        position = is_element ? (lua_Unsigned)(value - table->elements) + 1
                              : (lua_Unsigned)((const frozen_pair *)((const char *)value - offsetof(frozen_pair, value)) - table->pairs)
                                    + table->element_count + 1;
    }
    while (position < table->element_count && table->elements[position].tag == FROZEN_NIL) position++;
    if (position < table->element_count) {
        lua_pushinteger(L, (lua_Integer)position + 1);
        return 1 + push_value(L, &table->elements[position]);
    }
    position -= table->element_count;
    if (position >= table->pair_count) {
        lua_pushnil(L);
        return 1;
    }
    push_value(L, &table->pairs[position].key);
    return 1 + push_value(L, &table->pairs[position].value);
}

static int iterate(lua_State *L) {
    check(L, 1);
    lua_pushcfunction(L, next_pair);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static int describe(lua_State *L) {
    lua_pushfstring(L, "frozen table: %p", (const void *)check(L, 1));
    return 1;
}

static void push_view_metatable(lua_State *L) {
    if (clua_push_kept(L, CLUA_KEPT_FROZEN_METATABLE) == LUA_TTABLE) return;
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {
        {"__index", get_value}, {"__newindex", refuse_assignment}, {"__len", get_length}, {"__pairs", iterate}, {"__tostring", describe}, {NULL, NULL},
    };
    lua_createtable(L, 0, 8);
    luaL_setfuncs(L, functions, 0);
    lua_pushliteral(L, "frozen table");
    lua_setfield(L, -2, "__name");
    // A script that could reach the metatable could change what other scripts of this state read.
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_FROZEN_METATABLE);
}

// MARK: thawing

// Stack index 2: a table that has the copy of each frozen table, and a list of the tables whose copies are to be filled. Pushes the copy.
static void push_copy(lua_State *L, const frozen_table *table, lua_Integer *count) {
    if (lua_rawgetp(L, 2, table) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_createtable(L, (int)(table->element_count & INT32_MAX), (int)(table->pair_count & INT32_MAX));
    lua_pushvalue(L, -1);
    lua_rawsetp(L, 2, table);
    lua_pushlightuserdata(L, (void *)table);
    lua_rawseti(L, 2, ++*count);
}

static void push_thawed(lua_State *L, const frozen_value *value, lua_Integer *count) {
    if (value->tag == FROZEN_TABLE) return push_copy(L, value->table, count);
    push_value(L, value);
    if (value->tag != FROZEN_NAMED) return;
    // An empty array of JSON is one table in all frozen values. A copy must not change it.
    clua_push_kept(L, CLUA_KEPT_JSON_ARRAY);
    if (lua_rawequal(L, -1, -2)) {
        lua_newtable(L);
        lua_insert(L, -3);
        lua_pop(L, 1);
        lua_setmetatable(L, -2);
    } else {
        lua_pop(L, 1);
    }
}

int clua_thaw_here(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    const frozen_table *root = clua_to_frozen(L, 1);
    if (root == NULL) return 1;  // nothing of it is frozen
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    lua_createtable(L, 4, 4);
    lua_Integer count = 0;
    push_copy(L, root, &count);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_settop(L, 3);
        lua_rawgeti(L, 2, i);
        const frozen_table *table = lua_touserdata(L, -1);
        lua_rawgetp(L, 2, table);
        for (uint32_t j = 0; j < table->element_count; j++) {
            push_thawed(L, &table->elements[j], &count);
            lua_rawseti(L, 5, (lua_Integer)j + 1);
        }
        for (uint32_t j = 0; j < table->pair_count; j++) {
            push_thawed(L, &table->pairs[j].key, &count);
            push_thawed(L, &table->pairs[j].value, &count);
            lua_rawset(L, 5);
        }
    }
    lua_settop(L, 3);
    return 1;
}

// MARK: functions of the module

// Freezing allocates memory that Lua's collector does not count. The collector would start too late, so this function runs it.
static void pay_for(lua_State *L, size_t bytes) {
    clua_state *state = clua_state_of(L);
    state->frozen_debt += bytes;
    if (state->frozen_debt < ((size_t)1 << 20) + state->used_bytes / 2) return;
    state->frozen_debt = 0;
    lua_gc(L, LUA_GCCOLLECT, 0);
}

static int push_frozen(lua_State *L) {
    clua_push_frozen(L, lua_touserdata(L, 1));
    return 1;
}

int clua_freeze_here(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    int type = lua_type(L, 1);
    if (type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING || clua_to_frozen(L, 1) != NULL) return 1;
    if (type != LUA_TTABLE) return luaL_typeerror(L, 1, "table or plain value");
    clua_state *state = clua_state_of(L);
    if (state->shares_nothing)
        return luaL_error(L, "opscript.freeze is not available where operations run in worker processes (Configuration.isolation): they share no "
                             "memory; send the table itself");
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    const frozen_table *table;
    int status = clua_freeze(L, &table);
    if (status == LUA_OK && state->ledger != NULL) {
        clua_frozen_charge(table->owner, state->ledger);
        if (!clua_make_room(L, 0)) {
            stop_charging(state, table->owner);
            clua_frozen_release(table);
            return clua_raise_refusal_to_keep(L);
        }
    }
    if (status == LUA_OK) {
        pay_for(L, table->owner->charged);
        lua_pushcfunction(L, push_frozen);
        lua_pushlightuserdata(L, (void *)table);
        status = lua_pcall(L, 1, 1, 0);
        if (status != LUA_OK) stop_charging(state, table->owner);
        clua_frozen_release(table);
    } else if (status == LUA_ERRRUN && lua_type(L, -1) == LUA_TSTRING && strncmp(lua_tostring(L, -1), "cannot ", 7) == 0) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return status == LUA_OK ? 1 : lua_error(L);
}

static int is_frozen(lua_State *L) {
    luaL_checkany(L, 1);
    lua_pushboolean(L, clua_to_frozen(L, 1) != NULL);
    return 1;
}

void clua_open_frozen(lua_State *L) {
    clua_make_frozen_secret();
    static const luaL_Reg functions[] = {{"freeze", clua_freeze_here}, {"thaw", clua_thaw_here}, {"isFrozen", is_frozen}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
