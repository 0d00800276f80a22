#include "object.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "callback.h"
#include "memory_raising.h"
#include "object_raising.h"
#include "registry_raising.h"

static clua_object_functions object_functions;

// What every handle begins with, and no other userdata.
static const char handle_tag;

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

clua_handle *clua_to_handle(lua_State *L, int index) {
    clua_handle *handle = lua_touserdata(L, index);
    if (handle == NULL || lua_rawlen(L, index) < sizeof(clua_handle)) return NULL;  // a light userdata has no length
    return handle->tag == &handle_tag ? handle : NULL;
}

// MARK: places

// The low bits of what is at a place. The others are an object's address, or say which place is the next free one.
enum {
    IS_FREE = 1,
    IS_LEFT = 2,  // the object's handle waits for its finalizer, and knows the number only that the place had before
};

// Tables do not become smaller than for so many.
enum { FEW_PLACES = 64 };

static uint32_t slot_of(const clua_held_objects *held, uintptr_t content) {
    return (uint32_t)(((uint64_t)content * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (2 * held->capacity - 1);
}

static uint32_t slot_after(const clua_held_objects *held, uint32_t slot) { return (slot + 1) & (2 * held->capacity - 1); }

// The slot that has a place where this is, or the free one where that belongs. There is always one.
static uint32_t find_slot(const clua_held_objects *held, uintptr_t content) {
    uint32_t slot = slot_of(held, content);
    while (held->index[slot] != 0 && held->places[held->index[slot] - 1] != content) slot = slot_after(held, slot);
    return slot;
}

// Puts a place into the index, which may have others where the same is.
static void fill_slot(clua_held_objects *held, uint32_t place) {
    uint32_t slot = slot_of(held, held->places[place]);
    while (held->index[slot] != 0) slot = slot_after(held, slot);
    held->index[slot] = place + 1;
}

// Frees a slot; what comes after it and belongs further in front moves up.
static void empty_slot(clua_held_objects *held, uint32_t slot) {
    uint32_t mask = 2 * held->capacity - 1;
    for (uint32_t next = slot_after(held, slot); held->index[next] != 0; next = slot_after(held, next)) {
        uint32_t home = slot_of(held, held->places[held->index[next] - 1]);
        if (((next - home) & mask) < ((next - slot) & mask)) continue;
        held->index[slot] = held->index[next];
        slot = next;
    }
    held->index[slot] = 0;
}

static bool has_place(const clua_held_objects *held) { return held->free < held->count || held->count < held->capacity; }

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
static void grow(lua_State *L, clua_held_objects *held, uint32_t capacity) {
    uint32_t *index = calloc(2 * (size_t)capacity, sizeof *index), *old = held->index;
    uintptr_t *places = index == NULL ? NULL : realloc(held->places, capacity * sizeof *places);
    if (places == NULL) {
        free(index);
        clua_no_memory(L);
    }
    replace_table(L, CLUA_KEPT_HANDLES, held->count);
    replace_table(L, CLUA_KEPT_PINS, held->count);
    uint32_t old_count = 2 * held->capacity;
    held->places = places;
    held->index = index;
    held->capacity = capacity;
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i] != 0) fill_slot(held, old[i] - 1);
    free(old);
}

// Makes sure that a place is free, in all that is by place.
static void need_place(lua_State *L, clua_held_objects *held) {
    while (!has_place(held)) {
        uint32_t before = held->capacity, capacity = before == 0 ? 16 : 2 * before;
        lua_createtable(L, (int)capacity, 0);
        lua_createtable(L, (int)capacity, 0);
        // Making them may have run finalizers of scripts, which come here, too.
        if (held->capacity == before)
            grow(L, held, capacity);
        else
            lua_pop(L, 2);
    }
}

// Numbers the places anew, from the first on. Stack: new tables of handles and of pins, the table of handles so far. Never raises.
static void renumber(lua_State *L, clua_held_objects *held, const uintptr_t *old, uint32_t old_count) {
    held->count = held->free = 0;
    held->numbering++;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i] & IS_FREE) continue;
        uint32_t place = held->count++;
        held->places[place] = old[i];
        if (lua_rawgeti(L, 3, (lua_Integer)i + 1) == LUA_TUSERDATA) {
            clua_handle *handle = lua_touserdata(L, -1);
            handle->place = place;
            handle->numbering = held->numbering;
            if (handle->pin_count > 0) {
                lua_pushvalue(L, -1);
                lua_rawseti(L, 2, (lua_Integer)place + 1);
            }
            lua_rawseti(L, 1, (lua_Integer)place + 1);
        } else {
            held->places[place] |= IS_LEFT;
            lua_pop(L, 1);
        }
        fill_slot(held, place);
    }
    held->free = held->count;
}

// Moves what is there into tables that have room for as much again. Where there is no memory for them nothing changes.
static int shrink(lua_State *L) {
    clua_held_objects *held = &clua_state_of(L)->held;
    uint32_t before = held->capacity, capacity = FEW_PLACES;
    while (capacity < 2 * held->used) capacity *= 2;
    lua_createtable(L, (int)capacity, 0);
    lua_createtable(L, (int)capacity, 0);
    // Making them may have run finalizers of scripts, which come here, too.
    if (held->capacity != before || held->used > capacity) return 0;
    uint32_t *index = calloc(2 * (size_t)capacity, sizeof *index);
    uintptr_t *places = malloc(capacity * sizeof *places), *old = held->places;
    if (index == NULL || places == NULL) {
        free(index);
        free(places);
        return 0;
    }
    free(held->index);
    held->index = index;
    held->places = places;
    held->capacity = capacity;
    clua_push_kept(L, CLUA_KEPT_HANDLES);
    if (lua_getmetatable(L, 3)) lua_setmetatable(L, 1);
    renumber(L, held, old, held->count);
    free(old);
    lua_pop(L, 1);
    clua_keep(L, CLUA_KEPT_PINS);
    clua_keep(L, CLUA_KEPT_HANDLES);
    return 0;
}

// After a place has become free: the room of most is given back when few are in use. Never raises.
static void shrink_if_roomy(lua_State *L) {
    const clua_state *state = clua_state_of(L);
    const clua_held_objects *held = &state->held;
    if (held->capacity <= 4 * FEW_PLACES || held->used >= held->capacity / 8) return;
    // A body that is near its limit is not stopped for this. The new tables are a quarter as large as the old ones, or less.
    if (state->used_bytes + (size_t)held->capacity * 16 > state->limit_bytes) return;
    lua_pushcfunction(L, shrink);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
}

// Takes over a reference, where a place is free. An older handle of the object may be waiting for its finalizer: it is not found any more.
static void hold(clua_held_objects *held, clua_handle *handle, void *object) {
    handle->place = held->free;
    handle->numbering = held->numbering;
    held->free = held->free < held->count ? (uint32_t)(held->places[held->free] >> 1) : ++held->count;
    held->used++;
    uint32_t slot = find_slot(held, (uintptr_t)object);
    held->places[handle->place] = (uintptr_t)object;
    held->index[slot] = handle->place + 1;
    handle->object = object;
}

// Gives back what it holds.
static void *let_go(clua_held_objects *held, clua_handle *handle) {
    void *object = handle->object;
    bool is_left = handle->numbering != held->numbering;
    uint32_t slot = find_slot(held, (uintptr_t)object | (is_left ? IS_LEFT : 0));
    uint32_t place = is_left ? held->index[slot] - 1 : handle->place;
    if (held->index[slot] == place + 1) empty_slot(held, slot);
    handle->object = NULL;
    held->places[place] = ((uintptr_t)held->free << 1) | IS_FREE;
    held->free = place;
    held->used--;
    return object;
}

void clua_held_objects_release(clua_held_objects *held) {
    for (uint32_t i = 0; i < held->count; i++)
        if ((held->places[i] & IS_FREE) == 0) clua_object_release((void *)(held->places[i] & ~(uintptr_t)IS_LEFT));
    free(held->places);
    free(held->index);
    *held = (clua_held_objects){0};
}

// MARK: handles

static int handle_gc(lua_State *L) {
    clua_handle *handle = clua_to_handle(L, 1);
    if (handle == NULL || handle->object == NULL) return 0;
    clua_object_release(let_go(&clua_state_of(L)->held, handle));
    shrink_if_roomy(L);
    return 0;
}

void clua_push_metatable(lua_State *L, int kind) {
    if (clua_push_kept(L, CLUA_KEPT_METATABLES + kind) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 8);
    lua_pushcfunction(L, handle_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_METATABLES + kind);
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
}

// Pushes the handle at a place. One that waits for its finalizer is not there any more.
static bool push_handle_at_place(lua_State *L, uint32_t place) {
    clua_push_kept(L, CLUA_KEPT_HANDLES);
    bool exists = lua_rawgeti(L, -1, (lua_Integer)place + 1) == LUA_TUSERDATA;
    if (exists)
        lua_replace(L, -2);
    else
        lua_pop(L, 2);
    return exists;
}

bool clua_push_existing_handle(lua_State *L, const void *object) {
    clua_held_objects *held = &clua_state_of(L)->held;
    // Operations mostly end in the order in which they were made. The index lies in no order, and is seldom in the processor's cache.
    for (uint32_t place = held->found; place < held->count && place < held->found + 4; place++) {
        if (held->places[place] != (uintptr_t)object) continue;
        held->found = place;
        if (push_handle_at_place(L, place)) return true;
        break;  // there may be another one
    }
    if (held->capacity == 0) return false;
    uint32_t place = held->index[find_slot(held, (uintptr_t)object)];
    if (place == 0) return false;
    held->found = place - 1;
    return push_handle_at_place(L, place - 1);
}

// Pushes a handle that holds nothing, and sees to it that there is a place for what it will hold.
static int push_empty_handle(lua_State *L) {
    clua_handle *handle = lua_newuserdatauv(L, sizeof(clua_handle), CLUA_SLOT_COUNT);
    *handle = (clua_handle){.tag = &handle_tag};
    need_place(L, &clua_state_of(L)->held);
    return 1;
}

// The handle on top, empty so far, takes over a reference; there is a place for it.
static void fill_handle(lua_State *L, void *object, int kind) {
    clua_handle *handle = lua_touserdata(L, -1);
    handle->kind = (uint16_t)kind;
    hold(&clua_state_of(L)->held, handle, object);
    // At once: whoever numbers the places anew has to find it.
    clua_push_kept(L, CLUA_KEPT_HANDLES);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, (lua_Integer)handle->place + 1);
    lua_pop(L, 1);
    handle->class_object = object_functions.class_of != NULL ? object_functions.class_of(object, kind) : NULL;
    clua_push_metatable(L, kind);
    lua_setmetatable(L, -2);
}

// Whether the value on top is the spare handle, and has a place to go to.
static bool is_spare(lua_State *L) {
    const clua_handle *handle = lua_touserdata(L, -1);
    return handle != NULL && handle->object == NULL && has_place(&clua_state_of(L)->held);
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
