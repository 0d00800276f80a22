// Freezing: copying a table, and what it contains, into an owner.
#include <lua5.4/lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Objects/class_raising.h"
#include "Objects/unread_raising.h"
#include "Transfer/array_part_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/parcel_path.h"
#include "Transfer/pointer_map.h"
#include "object.h"

typedef struct list {
    void *items;
    size_t count, capacity;
} list;

typedef struct step_block {
    struct step_block *next;
    size_t count;
    path_step steps[64];
} step_block;

// While a builder works, no script runs and nothing is collected: the tables do not change, and addresses stay valid.
typedef struct builder {
    lua_State *L;
    clua_frozen *owner;
    size_t allocated;    // by the state's allocator
    pointer_map met;     // Lua tables, leaves, strings, and other owners; `offset` is the address of what was made of it
    list tables;         // frozen_table *; the Lua table at `ANCHORS` has each at its number, from 1
    list steps;          // const path_step *, for each of them
    list leaves;         // frozen_leaf *; their values are at -1, -2 … there
    list strings, nested;
    list elements, pairs;  // of the table that is being copied
    step_block *step_blocks;
    const path_step *step;  // to that table
} builder;

enum { BUILDER = 1, VALUE, ANCHORS };

// MARK: memory

static void *append(builder *b, list *list, size_t size) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
        void *items = realloc(list->items, capacity * size);
        if (items == NULL) clua_no_memory(b->L);
        list->items = items;
        list->capacity = capacity;
    }
    return (char *)list->items + size * list->count++;
}

static void *charged_memory(void *context, size_t size) {
    builder *b = context;
    void *allocator_context;
    lua_Alloc allocator = lua_getallocf(b->L, &allocator_context);
    void *made = allocator(allocator_context, NULL, 0, size);
    if (made != NULL) b->allocated += size;
    return made;
}

// Memory of the owner, which counts as the state's.
static void *allocate(builder *b, size_t size) {
    void *result = frozen_allocate(b->owner, size, charged_memory, b);
    if (result == NULL) clua_no_memory(b->L);
    return result;
}

static pointer_entry *meet(builder *b, const void *key, bool *found) {
    pointer_entry *entry = pointer_map_get(&b->met, key, found);
    if (entry == NULL) clua_no_memory(b->L);
    return entry;
}

// MARK: paths

typedef enum place { IN_VALUE, IN_KEY } place;

// The step to the value on top. The key is `element` if that is not 0, and otherwise below the value.
static const path_step *make_step(builder *b, place place, lua_Integer element) {
    lua_State *L = b->L;
    if (b->step_blocks == NULL || b->step_blocks->count == sizeof b->step_blocks->steps / sizeof *b->step_blocks->steps) {
        step_block *block = malloc(sizeof *block);
        if (block == NULL) clua_no_memory(L);
        *block = (step_block){.next = b->step_blocks};
        b->step_blocks = block;
    }
    path_step *step = &b->step_blocks->steps[b->step_blocks->count++];
    *step = (path_step){.parent = b->step, .kind = PATH_KEY};
    if (place == IN_KEY) return step;
    if (element != 0 || lua_isinteger(L, -2)) {
        step->kind = PATH_ELEMENT;
        step->number = element != 0 ? element : lua_tointeger(L, -2);
    } else if (lua_type(L, -2) == LUA_TSTRING) {
        size_t count;
        step->kind = PATH_FIELD;
        step->text = lua_tolstring(L, -2, &count);
        step->number = (lua_Integer)count;
    } else {
        step->kind = PATH_OTHER;
        step->text = luaL_typename(L, -2);
    }
    return step;
}

static int refuse(builder *b, place place, lua_Integer element, const char *what, const char *remedy) {
    lua_State *L = b->L;
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    path_push_name(L, make_step(b, place, element));
    lua_pushfstring(L, "cannot freeze %s (%s); %s", lua_tostring(L, -1), what, remedy);
    return lua_error(L);
}

static int refuse_upvalue(builder *b, place place, lua_Integer element, const char *name) {
    char what[80];
    snprintf(what, sizeof what, "a function with the upvalue '%.40s'", name);
    return refuse(b, place, element, what, "pass it what it needs, or put it in a module");
}

// MARK: values

// Charges the state for a string that it shares. When Lua frees its string, the state's memory no longer counts the bytes, but this value
// still has them.
static void charge(builder *b, size_t count) {
    clua_state *state = clua_state_of(b->L);
    state->used_bytes += count;
    b->allocated += count;
    if (state->used_bytes > state->limit_bytes) clua_no_memory(b->L);
}

static const frozen_string *make_string(builder *b, int index) {
    size_t count;
    const char *bytes = lua_tolstring(b->L, index, &count);
    bool found;
    pointer_entry *entry = meet(b, bytes, &found);
    if (found) return (const frozen_string *)entry->offset;
    bool is_shared = count >= CLUA_MIN_SHARED_STRING;
    frozen_string *string = allocate(b, sizeof *string + (is_shared ? 0 : count + 1));
    *string = (frozen_string){.count = count, .hash = frozen_hash(bytes, count), .bytes = (const char *)(string + 1)};
    if (is_shared) {
        clua_shared_string **shared = append(b, &b->strings, sizeof *shared);
        *shared = clua_share_string(clua_state_of(b->L), bytes, count);
        if (*shared == NULL) clua_no_memory(b->L);
        string->bytes = (*shared)->bytes;
        b->owner->size += count;
        charge(b, count);
    } else {
        memcpy((char *)(string + 1), bytes, count + 1);
    }
    entry->offset = (size_t)(uintptr_t)string;
    return string;
}

// The table for the Lua table on top, which is copied later if it is new. `step` leads to it.
static const frozen_table *make_table(builder *b, pointer_entry *entry, const path_step *step) {
    frozen_table *table = allocate(b, sizeof *table);
    *table = (frozen_table){.owner = b->owner};
    entry->offset = (size_t)(uintptr_t)table;
    *(const path_step **)append(b, &b->steps, sizeof step) = step;
    *(frozen_table **)append(b, &b->tables, sizeof table) = table;
    lua_pushvalue(b->L, -1);
    lua_rawseti(b->L, ANCHORS, (lua_Integer)b->tables.count);
    return table;
}

static frozen_leaf *make_leaf(builder *b, pointer_entry *entry) {
    frozen_leaf *leaf = allocate(b, sizeof *leaf);
    *leaf = (frozen_leaf){0};
    entry->offset = (size_t)(uintptr_t)leaf;
    *(frozen_leaf **)append(b, &b->leaves, sizeof leaf) = leaf;
    lua_pushvalue(b->L, -1);
    lua_rawseti(b->L, ANCHORS, -(lua_Integer)b->leaves.count);
    return leaf;
}

// If the value on top travels by name, fills `value`.
static bool make_named(builder *b, frozen_value *value) {
    lua_State *L = b->L;
    if (!clua_module_name(L, -1)) return false;
    bool found;
    pointer_entry *entry = meet(b, lua_topointer(L, -3), &found);
    frozen_leaf *leaf = (frozen_leaf *)entry->offset;
    if (!found) {
        // Adding strings moves the entry.
        const frozen_string *module = make_string(b, -2), *field = lua_isnil(L, -1) ? NULL : make_string(b, -1);
        leaf = allocate(b, sizeof *leaf);
        *leaf = (frozen_leaf){.module = module, .field = field};
        meet(b, lua_topointer(L, -3), &found)->offset = (size_t)(uintptr_t)leaf;
    }
    lua_pop(L, 2);
    *value = (frozen_value){.leaf = leaf, .tag = FROZEN_NAMED};
    return true;
}

static void freeze_table(builder *b, place place, lua_Integer element, frozen_value *value) {
    lua_State *L = b->L;
    if (clua_is_environment(L, -1)) refuse(b, place, element, "a global table", "freeze a table with what you need");
    if (make_named(b, value)) return;
    if (clua_class_handle(L, -1) != NULL) refuse(b, place, element, "a class", "send it by itself");
    clua_show_status(L, -1);
    if (lua_getmetatable(L, -1)) {
        lua_pop(L, 1);
        refuse(b, place, element, "a table with a metatable", "freeze a table without one");
    }
    bool found;
    pointer_entry *entry = meet(b, lua_topointer(L, -1), &found);
    const frozen_table *table =
        found ? (const frozen_table *)entry->offset : make_table(b, entry, make_step(b, place, element));
    *value = (frozen_value){.table = table, .tag = FROZEN_TABLE};
}

// A function may have only its environment as an upvalue.
static void freeze_function(builder *b, place place, lua_Integer element, frozen_value *value) {
    lua_State *L = b->L;
    if (make_named(b, value)) return;
    if (lua_iscfunction(L, -1)) refuse(b, place, element, "a C function", "put it in a module, and require that where it is used");
    const char *name;
    for (int i = 1; (name = lua_getupvalue(L, -1, i)) != NULL; i++) {
        bool is_environment = lua_istable(L, -1) && clua_is_environment(L, -1);
        lua_pop(L, 1);
        if (!is_environment) refuse_upvalue(b, place, element, name);
    }
    if (place == IN_KEY) refuse(b, place, element, "a function", "use a string as the key");
    bool found;
    pointer_entry *entry = meet(b, lua_topointer(L, -1), &found);
    *value = (frozen_value){.leaf = found ? (frozen_leaf *)entry->offset : make_leaf(b, entry), .tag = FROZEN_FUNCTION};
}

static void freeze_userdata(builder *b, place place, lua_Integer element, frozen_value *value) {
    lua_State *L = b->L;
    bool found;
    const frozen_table *table = clua_to_frozen(L, -1);
    if (table != NULL) {
        meet(b, table->owner, &found);
        if (!found) {
            *(const frozen_table **)append(b, &b->nested, sizeof table) = table;
            clua_frozen_retain(table);
            b->owner->has_objects |= table->owner->has_objects;
        }
        *value = (frozen_value){.table = table, .tag = FROZEN_TABLE};
        return;
    }
    const clua_handle *handle = clua_to_handle(L, -1);
    if (handle != NULL && handle->object != NULL) {
        pointer_entry *entry = meet(b, lua_topointer(L, -1), &found);
        frozen_leaf *leaf = found ? (frozen_leaf *)entry->offset : make_leaf(b, entry);
        leaf->identity = handle->object;
        *value = (frozen_value){.leaf = leaf, .tag = FROZEN_OBJECT};
        return;
    }
    if (!make_named(b, value)) refuse(b, place, element, "a userdata", "make it where it is used");
}

// Freezes the value on top, which stays there.
static void freeze_value(builder *b, place place, lua_Integer element, frozen_value *value) {
    lua_State *L = b->L;
    *value = (frozen_value){.integer = 0};
    switch (lua_type(L, -1)) {
    case LUA_TNIL: value->tag = FROZEN_NIL; break;
    case LUA_TBOOLEAN: value->tag = lua_toboolean(L, -1) ? FROZEN_TRUE : FROZEN_FALSE; break;
    case LUA_TNUMBER:
        value->tag = lua_isinteger(L, -1) ? FROZEN_INTEGER : FROZEN_FLOAT;
        if (value->tag == FROZEN_INTEGER)
            value->integer = lua_tointeger(L, -1);
        else
            value->number = lua_tonumber(L, -1);
        break;
    case LUA_TSTRING:
        value->string = make_string(b, -1);
        value->tag = FROZEN_STRING;
        break;
    case LUA_TTABLE: freeze_table(b, place, element, value); break;
    case LUA_TFUNCTION: freeze_function(b, place, element, value); break;
    case LUA_TUSERDATA: freeze_userdata(b, place, element, value); break;
    case LUA_TTHREAD: refuse(b, place, element, "a coroutine", "create it where it is used"); break;
    default:
        if (!make_named(b, value)) refuse(b, place, element, "a light userdata", "it is an address, which means nothing elsewhere");
    }
}

// MARK: tables

static void *copy_of(builder *b, const list *list, size_t size) {
    if (list->count == 0) return NULL;
    if (list->count > UINT32_MAX / 4) luaL_error(b->L, "the table is too large to freeze");
    return memcpy(allocate(b, list->count * size), list->items, list->count * size);
}

// Copies the Lua table with this number, from 0.
static void copy_table(builder *b, size_t number) {
    lua_State *L = b->L;
    b->step = ((const path_step **)b->steps.items)[number];
    frozen_value value;
    lua_rawgeti(L, ANCHORS, (lua_Integer)number + 1);
    int table = lua_gettop(L);
    b->elements.count = b->pairs.count = 0;
    lua_Integer elements = 0, places = 0;
    for (;; lua_settop(L, table)) {
        bool is_nil = lua_rawgeti(L, table, elements + 1) == LUA_TNIL;
        if (is_nil && places == 0) {
            lua_Integer border = (lua_Integer)lua_rawlen(L, table);
            places = clua_array_places(L, table, elements);
            // A frozen table has no hash part that `#` could look at.
            if (places != 0 && border <= 4 * elements + 64) places = border;
        }
        if (is_nil && elements >= places) break;
        elements++;
        freeze_value(b, IN_VALUE, elements, &value);
        *(frozen_value *)append(b, &b->elements, sizeof value) = value;
    }
    lua_settop(L, table);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (!lua_isinteger(L, -2) || (lua_Unsigned)lua_tointeger(L, -2) - 1u >= (lua_Unsigned)elements) {
            frozen_pair pair;
            freeze_value(b, IN_VALUE, 0, &pair.value);
            lua_pushvalue(L, -2);
            freeze_value(b, IN_KEY, 0, &pair.key);
            lua_pop(L, 1);
            *(frozen_pair *)append(b, &b->pairs, sizeof pair) = pair;
        }
        lua_pop(L, 1);
    }
    lua_settop(L, table - 1);
    frozen_table *made = ((frozen_table **)b->tables.items)[number];
    made->elements = copy_of(b, &b->elements, sizeof(frozen_value));
    made->element_count = (uint32_t)b->elements.count;
    made->pairs = copy_of(b, &b->pairs, sizeof(frozen_pair));
    made->pair_count = (uint32_t)b->pairs.count;
    if (made->pair_count == 0) return;
    uint32_t size = frozen_index_size(made->pair_count);
    frozen_make_index(made, allocate(b, size * sizeof(uint32_t)), size);
}

// Encodes the objects and functions. This is the last step, because it may run code of scripts.
static void encode_leaves(builder *b) {
    lua_State *L = b->L;
    for (size_t i = 0; i < b->leaves.count; i++) {
        frozen_leaf *leaf = ((frozen_leaf **)b->leaves.items)[i];
        lua_rawgeti(L, ANCHORS, -(lua_Integer)i - 1);
        if (clua_encode(L, 1, CLUA_STORED, &leaf->parcel) != LUA_OK) lua_error(L);
        if (clua_parcel_reference_count(&leaf->parcel) > 0) clua_state_of(L)->host->sent(L, &leaf->parcel);
        b->owner->has_objects |= clua_parcel_has_objects(&leaf->parcel);
        b->owner->size += clua_parcel_size(&leaf->parcel);
        lua_pop(L, 1);
    }
}

static int freeze_all(lua_State *L) {
    builder *b = lua_touserdata(L, BUILDER);
    b->L = L;
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    lua_createtable(L, 4, 0);
    static const path_step root = {.kind = PATH_ARGUMENT, .number = 1};
    b->step = &root;
    bool found;
    lua_pushvalue(L, VALUE);
    if (clua_is_environment(L, -1)) luaL_error(L, "cannot freeze argument 1 (a global table); freeze a table with what you need");
    clua_show_status(L, -1);
    if (lua_getmetatable(L, -1)) luaL_error(L, "cannot freeze argument 1 (a table with a metatable); freeze a table without one");
    make_table(b, meet(b, lua_topointer(L, -1), &found), &root);
    lua_settop(L, ANCHORS);
    for (size_t i = 0; i < b->tables.count; i++) copy_table(b, i);
    encode_leaves(b);
    return 0;
}

static void free_lists(builder *b) {
    list *lists[] = {&b->tables, &b->steps, &b->elements, &b->pairs};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->items);
    pointer_map_free(&b->met);
    while (b->step_blocks != NULL) {
        step_block *next = b->step_blocks->next;
        free(b->step_blocks);
        b->step_blocks = next;
    }
}

static int attempt(lua_State *L, const frozen_table **table) {
    clua_frozen *owner = calloc(1, sizeof *owner);
    if (owner == NULL || !lua_checkstack(L, 4)) {
        free(owner);
        lua_pushliteral(L, CLUA_NO_MEMORY);
        return LUA_ERRMEM;
    }
    builder b = {.L = L, .owner = owner};
    pointer_map_init(&b.met);
    bool is_collecting = lua_gc(L, LUA_GCISRUNNING) == 1;
    if (is_collecting) lua_gc(L, LUA_GCSTOP);
    lua_pushcfunction(L, freeze_all);
    lua_pushlightuserdata(L, &b);
    lua_pushvalue(L, 1);
    int status = lua_pcall(L, 2, 0, 0);
    if (is_collecting) lua_gc(L, LUA_GCRESTART);
    owner->leaves = b.leaves.items;
    owner->leaf_count = b.leaves.count;
    owner->strings = b.strings.items;
    owner->string_count = b.strings.count;
    owner->nested = b.nested.items;
    owner->nested_count = b.nested.count;
    if (status == LUA_OK) {
        atomic_init(&owner->references, 1);
        atomic_init(&owner->home, clua_state_of(L));
        owner->charged = b.allocated;
        *table = *(const frozen_table **)b.tables.items;
    } else {
        clua_state_of(L)->used_bytes -= b.allocated;
        clua_frozen_destroy(owner);
    }
    free_lists(&b);
    return status;
}

static bool is_lack_of_memory(lua_State *L, int status) {
    return status == LUA_ERRMEM || (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), CLUA_NO_MEMORY) == 0);
}

int clua_freeze(lua_State *L, const frozen_table **table) {
    int status = attempt(L, table);
    // Lua itself would collect garbage before it gives up.
    if (status == LUA_OK || !is_lack_of_memory(L, status) || clua_state_of(L)->stop.raised != 0) return status;
    lua_pop(L, 1);
    lua_gc(L, LUA_GCCOLLECT, 0);
    return attempt(L, table);
}
