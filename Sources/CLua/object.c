#include "object.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "callback.h"
#include "collections_raising.h"
#include "memory_raising.h"
#include "object_raising.h"
#include "registry_raising.h"

static clua_object_functions object_functions;

void clua_set_object_functions(clua_object_functions functions) { object_functions = functions; }
void clua_object_retain(void *object) { object_functions.retain(object); }
void clua_object_release(void *object) { object_functions.release(object); }

// Objects that this thread has still to release, while it is releasing one.
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

// MARK: places

// The low bit of what is at a place: the others say which place is the next free one. No place is 0.
enum { IS_FREE = 1 };

// Tables do not become smaller than for so many.
enum { FEW_PLACES = 64 };

static clua_handle *handle_at(const clua_handles *handles, uint32_t place) { return (clua_handle *)handles->places[place]; }

// Whether this is one of the handles, and not only as large.
static bool is_handle(const clua_handles *handles, const clua_handle *handle) {
    return handle->place - 1 < handles->count && handles->places[handle->place] == (uintptr_t)handle;
}

clua_handle *clua_to_handle(lua_State *L, int index) {
    clua_handle *handle = lua_touserdata(L, index);
    if (handle == NULL || lua_rawlen(L, index) != sizeof(clua_handle)) return NULL;  // a light userdata has no length
    return is_handle(&clua_state_of(L)->handles, handle) ? handle : NULL;
}

static uint32_t slot_of(const clua_handles *handles, const void *object) {
    return (uint32_t)(((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (2 * handles->capacity - 1);
}

static uint32_t slot_after(const clua_handles *handles, uint32_t slot) { return (slot + 1) & (2 * handles->capacity - 1); }

// The slot that has the place of a handle of the object, or the free one where that belongs. There is always one.
static uint32_t find_slot(const clua_handles *handles, const void *object) {
    uint32_t slot = slot_of(handles, object);
    while (handles->index[slot] != 0 && handle_at(handles, handles->index[slot])->object != object) slot = slot_after(handles, slot);
    return slot;
}

// Frees a slot; what comes after it and belongs further in front moves up.
static void empty_slot(clua_handles *handles, uint32_t slot) {
    uint32_t mask = 2 * handles->capacity - 1;
    for (uint32_t next = slot_after(handles, slot); handles->index[next] != 0; next = slot_after(handles, next)) {
        uint32_t home = slot_of(handles, handle_at(handles, handles->index[next])->object);
        if (((next - home) & mask) < ((next - slot) & mask)) continue;
        handles->index[slot] = handles->index[next];
        slot = next;
    }
    handles->index[slot] = 0;
}

// The place of the object's handle if it knows that itself; 0 when there is none.
static uint32_t own_place(const clua_state *state, const void *object) {
    return object_functions.place_of == NULL ? CLUA_NO_PLACE : object_functions.place_of(object, state->object);
}

// The place of the object's handle, the newest if it has several; 0 when there is none.
static uint32_t find_place(const clua_state *state, const void *object) {
    const clua_handles *handles = &state->handles;
    uint32_t place = own_place(state, object);
    if (place != CLUA_NO_PLACE) return place;
    return handles->capacity == 0 ? 0 : handles->index[find_slot(handles, object)];
}

static bool has_place(const clua_handles *handles) { return handles->free <= handles->count || handles->count < handles->capacity; }

// Takes over a reference, where a place is free. There may be an older handle of the object, which is not found any more: nothing but
// finalizers of scripts refers to it.
static void hold(clua_state *state, clua_handle *handle, void *object) {
    clua_handles *handles = &state->handles;
    uint32_t place = handles->free;
    if (place <= handles->count)
        handles->free = (uint32_t)(handles->places[place] >> 1);
    else
        handles->free = ++handles->count + 1;
    handles->used++;
    if (own_place(state, object) != CLUA_NO_PLACE)
        object_functions.set_place(object, place);
    else
        handles->index[find_slot(handles, object)] = place;
    handles->places[place] = (uintptr_t)handle;
    handle->place = place;
    handle->object = object;
}

// Gives back what it holds.
static void *let_go(clua_state *state, clua_handle *handle) {
    clua_handles *handles = &state->handles;
    void *object = handle->object;
    uint32_t own = own_place(state, object);
    if (own == CLUA_NO_PLACE) {
        uint32_t slot = find_slot(handles, object);
        if (handles->index[slot] == handle->place) empty_slot(handles, slot);
    } else if (own == handle->place) {
        object_functions.set_place(object, 0);
    }
    handles->places[handle->place] = ((uintptr_t)handles->free << 1) | IS_FREE;
    handles->free = handle->place;
    handles->used--;
    return object;
}

// MARK: room for places

// The new table on top, empty, has room for all that is in the one that is kept, and takes its place. Never raises.
static void replace_table(lua_State *L, clua_kept kept, uint32_t count) {
    clua_push_kept(L, kept);
    if (lua_getmetatable(L, -1)) lua_setmetatable(L, -3);
    for (uint32_t i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -3, i);
    }
    lua_pop(L, 1);
    clua_keep(L, kept);
}

// The tables for so many places are on top; pops them. May raise; then there is no more room, and all is as it was.
static void grow(lua_State *L, clua_handles *handles, uint32_t capacity) {
    uint32_t *index = calloc(2 * (size_t)capacity, sizeof *index), *old = handles->index;
    uintptr_t *places = index == NULL ? NULL : realloc(handles->places, (capacity + (size_t)1) * sizeof *places);
    if (places == NULL) {
        free(index);
        clua_no_memory(L);
    }
    replace_table(L, CLUA_KEPT_HANDLES, handles->count);
    replace_table(L, CLUA_KEPT_PINS, handles->count);
    uint32_t old_count = 2 * handles->capacity;
    handles->places = places;
    handles->index = index;
    handles->capacity = capacity;
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i] != 0) index[find_slot(handles, handle_at(handles, old[i])->object)] = old[i];
    free(old);
}

// Makes sure that a place is free, in all that is by place.
static void need_place(lua_State *L, clua_handles *handles) {
    while (!has_place(handles)) {
        uint32_t before = handles->capacity, capacity = before == 0 ? 16 : 2 * before;
        lua_createtable(L, (int)capacity, 0);
        lua_createtable(L, (int)capacity, 0);
        // Making them may have run finalizers of scripts, which come here, too.
        if (handles->capacity == before)
            grow(L, handles, capacity);
        else
            lua_pop(L, 2);
    }
}

// Numbers the places anew, from the first on. `old`: what was at them so far. Stack: new tables of handles and of pins, those so far. Never
// raises.
static void renumber(lua_State *L, clua_state *state, const uintptr_t *old, uint32_t old_count) {
    clua_handles *handles = &state->handles;
    handles->count = 0;
    for (uint32_t i = 1; i <= old_count; i++) {
        if (old[i] & IS_FREE) continue;
        uint32_t place = ++handles->count;
        clua_handle *handle = (clua_handle *)old[i];
        handles->places[place] = old[i];
        handle->place = place;
        // One that only a finalizer of a script has come to again is not in the table, and another one of its object may be.
        bool is_found = lua_rawgeti(L, 3, i) == LUA_TUSERDATA;
        lua_rawseti(L, 1, place);
        lua_rawgeti(L, 4, i);
        lua_rawseti(L, 2, place);
        if (own_place(state, handle->object) != CLUA_NO_PLACE) {
            if (is_found) object_functions.set_place(handle->object, place);
        } else {
            uint32_t slot = find_slot(handles, handle->object);
            if (is_found || handles->index[slot] == 0) handles->index[slot] = place;
        }
    }
    handles->free = handles->count + 1;
}

// Moves what is there into tables that have room for as much again. Where there is no memory for them nothing changes.
static int shrink(lua_State *L) {
    clua_state *state = clua_state_of(L);
    clua_handles *handles = &state->handles;
    uint32_t before = handles->capacity, capacity = FEW_PLACES;
    while (capacity < 2 * handles->used) capacity *= 2;
    lua_createtable(L, (int)capacity, 0);
    lua_createtable(L, (int)capacity, 0);
    // Making them may have run finalizers of scripts, which come here, too.
    if (handles->capacity != before || handles->used > capacity) return 0;
    uint32_t *index = calloc(2 * (size_t)capacity, sizeof *index);
    uintptr_t *places = malloc((capacity + (size_t)1) * sizeof *places), *old = handles->places;
    if (index == NULL || places == NULL) {
        free(index);
        free(places);
        return 0;
    }
    free(handles->index);
    handles->index = index;
    handles->places = places;
    handles->capacity = capacity;
    clua_push_kept(L, CLUA_KEPT_HANDLES);
    if (lua_getmetatable(L, 3)) lua_setmetatable(L, 1);
    clua_push_kept(L, CLUA_KEPT_PINS);
    renumber(L, state, old, handles->count);
    free(old);
    lua_pop(L, 2);
    clua_keep(L, CLUA_KEPT_PINS);
    clua_keep(L, CLUA_KEPT_HANDLES);
    return 0;
}

// After places have become free: the room of most is given back when few are in use. Never raises.
static void shrink_if_roomy(lua_State *L) {
    const clua_state *state = clua_state_of(L);
    const clua_handles *handles = &state->handles;
    if (handles->capacity <= 4 * FEW_PLACES || handles->used >= handles->capacity / 8) return;
    // A body that is near its limit is not stopped for this. The new tables are a quarter as large as the old ones, or less.
    if (state->used_bytes + (size_t)handles->capacity * 16 > state->limit_bytes) return;
    lua_pushcfunction(L, shrink);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
}

// MARK: handles that have gone

// What a handle holds is at the end of what Lua allocates for it.
static clua_handle *handle_in(const clua_handles *handles, void *block) {
    return (clua_handle *)((char *)block + handles->block_size) - 1;
}

bool clua_handle_is_freed(clua_handles *handles, void *block) {
    if (!is_handle(handles, handle_in(handles, block))) return false;
    *(void **)block = handles->freed;
    handles->freed = block;
    return true;
}

// What goes with an object may free further handles.
static void release_freed(clua_state *state) {
    clua_handles *handles = &state->handles;
    while (handles->freed != NULL) {
        void *block = handles->freed;
        handles->freed = *(void **)block;
        void *object = let_go(state, handle_in(handles, block));
        free(block);
        clua_object_release(object);
    }
}

void clua_release_freed_handles(lua_State *L) {
    release_freed(clua_state_of(L));
    shrink_if_roomy(L);
}

void clua_handles_close(clua_state *state) {
    release_freed(state);
    free(state->handles.places);
    free(state->handles.index);
}

// MARK: handles

void clua_push_metatable(lua_State *L, int kind) {
    if (clua_push_kept(L, CLUA_KEPT_METATABLES + kind) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 8);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_METATABLES + kind);
}

static void push_empty_userdata(lua_State *L) {
    *(clua_handle *)lua_newuserdatauv(L, sizeof(clua_handle), CLUA_SLOT_COUNT) = (clua_handle){0};
}

void clua_objects_open(lua_State *L) {
    lua_createtable(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    clua_keep(L, CLUA_KEPT_HANDLES);
    lua_createtable(L, 0, 0);
    clua_keep(L, CLUA_KEPT_PINS);
    lua_createtable(L, 0, 4);
    clua_keep(L, CLUA_KEPT_CLASSES);
    clua_state *state = clua_state_of(L);
    size_t before = state->used_bytes;
    push_empty_userdata(L);
    state->handles.block_size = state->used_bytes - before;
    state->handles.free = 1;
    lua_pop(L, 1);
}

// Pushes what a table, of handles or of pins, has at a place, if that is a handle.
static bool push_from(lua_State *L, clua_kept table, uint32_t place) {
    clua_push_kept(L, table);
    bool exists = lua_rawgeti(L, -1, place) == LUA_TUSERDATA;
    if (exists)
        lua_replace(L, -2);
    else
        lua_pop(L, 2);
    return exists;
}

bool clua_push_existing_handle(lua_State *L, const void *object) {
    uint32_t place = find_place(clua_state_of(L), object);
    // One that nothing referred to is not there any more, unless a finalizer of a script came to it again, and had it pinned.
    return place != 0 && (push_from(L, CLUA_KEPT_HANDLES, place) || push_from(L, CLUA_KEPT_PINS, place));
}

// Pushes a handle that holds nothing, and sees to it that there is a place for what it will hold.
static int push_empty_handle(lua_State *L) {
    clua_handles *handles = &clua_state_of(L)->handles;
    if (handles->freed != NULL) clua_release_freed_handles(L);
    clua_watch_here(L);
    push_empty_userdata(L);
    need_place(L, handles);
    return 1;
}

// The handle on top, empty so far, takes over a reference; there is a place for it.
static void fill_handle(lua_State *L, void *object, int kind) {
    clua_handle *handle = lua_touserdata(L, -1);
    handle->kind = (unsigned)kind;
    hold(clua_state_of(L), handle, object);
    // At once: whoever numbers the places anew has to find it.
    clua_push_kept(L, CLUA_KEPT_HANDLES);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, handle->place);
    lua_pop(L, 1);
    handle->class_object = object_functions.class_of != NULL ? object_functions.class_of(object, kind) : NULL;
    clua_push_metatable(L, kind);
    lua_setmetatable(L, -2);
}

// Whether the value on top is the spare handle, and has a place to go to.
static bool is_spare(lua_State *L) {
    const clua_handle *handle = lua_touserdata(L, -1);
    return handle != NULL && handle->object == NULL && has_place(&clua_state_of(L)->handles);
}

void clua_push_owned_handle(lua_State *L, void *object, int kind) {
    if (clua_push_existing_handle(L, object))
        clua_object_release(object);
    else
        clua_push_new_handle(L, object, kind);
}

void clua_push_new_handle(lua_State *L, void *object, int kind) {
    // The spare one was made while nothing was owned. The next is made when this one owns the object.
    clua_push_kept(L, CLUA_KEPT_SPARE_HANDLE);
    if (!is_spare(L)) {
        lua_pop(L, 1);
        lua_pushcfunction(L, push_empty_handle);
        if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
            clua_object_release(object);
            lua_error(L);
        }
    }
    fill_handle(L, object, kind);
    push_empty_handle(L);
    clua_keep(L, CLUA_KEPT_SPARE_HANDLE);
}

void clua_push_handle(lua_State *L, void *object, int kind) {
    if (clua_push_existing_handle(L, object)) return;
    push_empty_handle(L);
    clua_object_retain(object);
    fill_handle(L, object, kind);
}
