#include "object.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "Core/registry_raising.h"
#include "Objects/collections_raising.h"
#include "Objects/object_raising.h"
#include "Objects/slot_map_raising.h"

static clua_object_functions object_functions;

void clua_set_object_functions(clua_object_functions functions) { object_functions = functions; }

static void release_nothing(void *object) { (void)object; }

void clua_release_no_objects(void) { object_functions.release = release_nothing; }
void clua_object_retain(void *object) { object_functions.retain(object); }
void clua_object_release(void *object) { object_functions.release(object); }

void *clua_object_class_of(void *object, int kind) {
    return object_functions.class_of != NULL ? object_functions.class_of(object, kind) : NULL;
}

// Objects queued by this thread for release while it releases another one.
static _Thread_local struct {
    bool is_releasing;
    void **objects;
    size_t count, capacity;
} waiting;

static bool wait_in_turn(void *object) {
    if (waiting.count == waiting.capacity) {
        size_t capacity = waiting.capacity == 0 ? 16 : 2 * waiting.capacity;
        void **objects = realloc(waiting.objects, capacity * sizeof *objects);
        if (objects == NULL) return false;
        waiting.objects = objects;
        waiting.capacity = capacity;
    }
    waiting.objects[waiting.count++] = object;
    return true;
}

void clua_object_release_in_turn(void *object) {
    if (waiting.is_releasing) {
        if (!wait_in_turn(object)) clua_object_release(object);
        return;
    }
    waiting.is_releasing = true;
    clua_object_release(object);
    while (waiting.count > 0) clua_object_release(waiting.objects[--waiting.count]);
    free(waiting.objects);
    waiting.objects = NULL;
    waiting.capacity = 0;
    waiting.is_releasing = false;
}

uint32_t clua_object_slot(const void *object, const void *state) {
    return object_functions.slot_of == NULL ? CLUA_NO_SLOT : object_functions.slot_of(object, state);
}

bool clua_object_set_slot(void *object, const void *state, uint32_t slot) {
    return object_functions.set_slot != NULL && object_functions.set_slot(object, state, slot);
}

static clua_handle *to_handle(lua_State *L, int index) {
    clua_handle *handle = lua_touserdata(L, index);
    if (handle == NULL || lua_rawlen(L, index) != sizeof(clua_handle)) return NULL;  // a light userdata has no length
    return clua_has_handle(&clua_state_of(L)->handles, handle) ? handle : NULL;
}

clua_handle *clua_to_handle(lua_State *L, int index) {
    clua_handle *handle = to_handle(L, index);
    if (handle != NULL && handle->is_deferred) {
        void *home = clua_state_of(L)->object;
        handle->object = object_functions.make(home, handle->has_callback);
        handle->is_deferred = false;
        clua_object_set_slot(handle->object, home, handle->slot);
    }
    return handle;
}

clua_handle *clua_to_deferred_handle(lua_State *L, int index) {
    clua_handle *handle = to_handle(L, index);
    return handle != NULL && handle->is_deferred ? handle : NULL;
}

// MARK: freed handles

// The handle is at the end of the block that Lua allocates for it.
static clua_handle *handle_in(const clua_handles *handles, void *block) {
    return (clua_handle *)((char *)block + handles->block_size) - 1;
}

bool clua_handle_is_freed(clua_handles *handles, void *block) {
    if (!clua_has_handle(handles, handle_in(handles, block))) return false;
    *(void **)block = handles->freed;
    handles->freed = block;
    return true;
}

// Releasing an object may free further handles, or create some.
void clua_release_freed_handles(clua_state *state) {
    clua_handles *handles = &state->handles;
    if (handles->is_releasing) return;
    handles->is_releasing = true;
    while (handles->freed != NULL) {
        void *block = handles->freed;
        handles->freed = *(void **)block;
        void *object = clua_free_slot(state, handle_in(handles, block));
        free(block);
        if (object != NULL) clua_object_release(object);
    }
    handles->is_releasing = false;
    if (state->dead_frozen != NULL) state->destroy_dead_frozen(state);
}

void clua_handles_close(clua_state *state) {
    clua_release_freed_handles(state);
    clua_slot_map_close(&state->handles);
}

// MARK: handles

void clua_push_metatable(lua_State *L, int kind) {
    if (clua_push_kept(L, CLUA_KEPT_METATABLES + kind) == LUA_TTABLE) return;
    lua_pop(L, 1);
    clua_state_of(L)->push_new_metatable(L, kind);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_METATABLES + kind);
}

static clua_handle *push_empty_userdata(lua_State *L) {
    clua_handle *handle = lua_newuserdatauv(L, sizeof(clua_handle), CLUA_USER_VALUE_COUNT);
    *handle = (clua_handle){0};
    return handle;
}

void clua_objects_open(lua_State *L) {
    clua_slot_map_open(L);
    lua_createtable(L, 0, 4);
    clua_keep(L, CLUA_KEPT_CLASSES);
    clua_state *state = clua_state_of(L);
    size_t before = state->used_bytes;
    push_empty_userdata(L);
    state->handles.block_size = state->used_bytes - before;
    lua_pop(L, 1);
}

// Pushes the handle at a slot from one of its page's tables, if there is one.
static bool push_from(lua_State *L, int table, uint32_t slot) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, table);
    bool exists = lua_rawgeti(L, -1, clua_index_in_page(slot)) == LUA_TUSERDATA;
    if (exists)
        lua_replace(L, -2);
    else
        lua_pop(L, 2);
    return exists;
}

bool clua_push_existing_handle(lua_State *L, const void *object) {
    const clua_state *state = clua_state_of(L);
    uint32_t slot = clua_find_slot(state, object);
    if (slot == 0) return false;
    const clua_slot_page *page = clua_page_of(&state->handles, slot);
    // The weak table has lost an unreferenced handle. If a finalizer of a script resurrected and pinned the handle, the pins still have it.
    return push_from(L, page->handles, slot) || push_from(L, page->pins, slot);
}

// Pushes a handle without an object, and reserves a slot for it.
static clua_handle *push_empty_handle(lua_State *L) {
    clua_state *state = clua_state_of(L);
    if (state->handles.freed != NULL || state->handles.used == 0) {
        clua_release_freed_handles(state);
        clua_need_watcher(L);
    }
    clua_handle *handle = push_empty_userdata(L);
    clua_reserve_slot(L);
    return handle;
}

static int make_empty_handle(lua_State *L) {
    push_empty_handle(L);
    return 1;
}

// A finalizer may have created a handle for the object meanwhile. Replaces the new handle on top by that one.
static bool replace_by_existing(lua_State *L, const void *object) {
    if (!clua_push_existing_handle(L, object)) return false;
    lua_remove(L, -2);
    return true;
}

// Gives the empty handle on top the slot reserved for it, and the caller's reference to `object` unless NULL. The creation of the metatable
// may raise, so the handle owns the object before that.
static void put_in_slot(lua_State *L, clua_handle *handle, int kind, void *object) {
    clua_state *state = clua_state_of(L);
    handle->kind = (unsigned)kind;
    clua_take_slot(state, handle);
    if (object != NULL) clua_take_object(state, handle, object);
    lua_rawgeti(L, LUA_REGISTRYINDEX, clua_page_of(&state->handles, handle->slot)->handles);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, clua_index_in_page(handle->slot));
    lua_pop(L, 1);
    clua_push_metatable(L, kind);
    lua_setmetatable(L, -2);
}

// Replaces the metatable of the handle on top by that of a registered class, if this state knows it.
static void set_metatable_of_class(lua_State *L, const void *class) {
    int handle = lua_gettop(L);
    clua_push_kept(L, CLUA_KEPT_CLASSES);
    if (class != NULL && lua_rawgetp(L, -1, class) == LUA_TTABLE) lua_setmetatable(L, handle);
    lua_settop(L, handle);
}

static void fill_handle(lua_State *L, void *object, int kind) {
    clua_handle *handle = lua_touserdata(L, -1);
    put_in_slot(L, handle, kind, object);
    const clua_host *host = clua_state_of(L)->host;
    if (kind == host->registering.object_kind) return set_metatable_of_class(L, host->registering.class_of(L, object));
    handle->class_object = clua_object_class_of(object, kind);
}

void clua_push_deferred_handle(lua_State *L, int kind) {
    clua_handle *handle = push_empty_handle(L);
    handle->is_deferred = true;
    put_in_slot(L, handle, kind, NULL);
}

// Whether the value on top is the preallocated handle, and a free slot exists for it.
static bool is_usable(lua_State *L) {
    const clua_handle *handle = lua_touserdata(L, -1);
    return handle != NULL && handle->object == NULL && clua_has_free_slot(clua_state_of(L));
}

void clua_push_owned_handle(lua_State *L, void *object, int kind) {
    if (clua_push_existing_handle(L, object))
        clua_object_release(object);
    else
        clua_push_new_handle(L, object, kind);
}

void clua_push_new_handle(lua_State *L, void *object, int kind) {
    // The preallocated handle was created while nothing was owned. The next one is created after this one owns the object.
    clua_push_kept(L, CLUA_KEPT_PREALLOCATED_HANDLE);
    if (!is_usable(L)) {
        lua_pop(L, 1);
        lua_pushcfunction(L, make_empty_handle);
        if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
            clua_object_release(object);
            lua_error(L);
        }
        if (replace_by_existing(L, object)) return clua_object_release(object);
    }
    fill_handle(L, object, kind);
    push_empty_handle(L);
    clua_keep(L, CLUA_KEPT_PREALLOCATED_HANDLE);
}

void clua_push_handle(lua_State *L, void *object, int kind) {
    if (clua_push_existing_handle(L, object)) return;
    push_empty_handle(L);
    if (replace_by_existing(L, object)) return;
    clua_object_retain(object);
    fill_handle(L, object, kind);
}
