#include "Objects/places_raising.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "Core/memory_raising.h"
#include "Objects/object_raising.h"

enum { LEAST_INDEX = 64 };

// MARK: chunks

static uintptr_t *slot_at(const clua_handles *handles, uint32_t place) {
    return &clua_chunk_of(handles, place)->slots[(place - 1) % CLUA_CHUNK_PLACES];
}

static clua_handle *handle_at(const clua_handles *handles, uint32_t place) { return (clua_handle *)*slot_at(handles, place); }

bool clua_has_handle(const clua_handles *handles, const clua_handle *handle) {
    // Of what is no handle this is any number.
    uint32_t number = (handle->place - 1) / CLUA_CHUNK_PLACES;
    return number < handles->chunk_limit && handles->chunks[number] != NULL && *slot_at(handles, handle->place) == (uintptr_t)handle;
}

static void add_to_roomy(clua_handles *handles, clua_chunk *chunk) {
    chunk->next = handles->roomy;
    chunk->previous = NULL;
    if (chunk->next != NULL) chunk->next->previous = chunk;
    handles->roomy = chunk;
}

static void remove_from_roomy(clua_handles *handles, clua_chunk *chunk) {
    if (chunk->next != NULL) chunk->next->previous = chunk->previous;
    if (chunk->previous != NULL)
        chunk->previous->next = chunk->next;
    else
        handles->roomy = chunk->next;
}

// A number that no chunk has, and room for it. May raise.
static uint32_t need_number(lua_State *L, clua_handles *handles) {
    while (handles->free_number < handles->chunk_limit && handles->chunks[handles->free_number] != NULL) handles->free_number++;
    if (handles->free_number == handles->chunk_limit) {
        uint32_t limit = handles->chunk_limit == 0 ? 16 : 2 * handles->chunk_limit;
        clua_chunk **chunks = realloc(handles->chunks, limit * sizeof *chunks);
        if (chunks == NULL) clua_no_memory(L);
        for (uint32_t i = handles->chunk_limit; i < limit; i++) chunks[i] = NULL;
        handles->chunks = chunks;
        handles->chunk_limit = limit;
    }
    return handles->free_number;
}

static void add_chunk(lua_State *L, clua_handles *handles) {
    lua_createtable(L, CLUA_CHUNK_PLACES, 0);
    clua_push_kept(L, CLUA_KEPT_WEAK_METATABLE);
    lua_setmetatable(L, -2);
    lua_createtable(L, CLUA_CHUNK_PLACES, 0);
    // Making them may have run finalizers of scripts, which come here, too.
    if (handles->roomy != NULL) {
        lua_pop(L, 2);
        return;
    }
    uint32_t number = need_number(L, handles);
    int pins = luaL_ref(L, LUA_REGISTRYINDEX), weak = luaL_ref(L, LUA_REGISTRYINDEX);
    clua_chunk *chunk = malloc(sizeof *chunk);
    if (chunk == NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, weak);
        luaL_unref(L, LUA_REGISTRYINDEX, pins);
        clua_no_memory(L);
    }
    *chunk = (clua_chunk){.number = number, .handles = weak, .pins = pins};
    for (uint32_t i = 0; i < CLUA_CHUNK_PLACES; i++) chunk->slots[i] = i + 1;
    handles->chunks[number] = chunk;
    handles->chunk_count++;
    add_to_roomy(handles, chunk);
}

static void remove_chunk(lua_State *L, clua_handles *handles, clua_chunk *chunk) {
    luaL_unref(L, LUA_REGISTRYINDEX, chunk->handles);
    luaL_unref(L, LUA_REGISTRYINDEX, chunk->pins);
    remove_from_roomy(handles, chunk);
    handles->chunks[chunk->number] = NULL;
    handles->chunk_count--;
    if (chunk->number < handles->free_number) handles->free_number = chunk->number;
    free(chunk);
}

// MARK: the index

static uint32_t index_slot_of(const clua_handles *handles, const void *object) {
    return (uint32_t)(((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (handles->index_size - 1);
}

static uint32_t index_slot_after(const clua_handles *handles, uint32_t slot) { return (slot + 1) & (handles->index_size - 1); }

// The slot that has the place of a handle of the object, or the free one where that belongs. There is always one.
static uint32_t find_index_slot(const clua_handles *handles, const void *object) {
    uint32_t slot = index_slot_of(handles, object);
    while (handles->index[slot] != 0 && handle_at(handles, handles->index[slot])->object != object) slot = index_slot_after(handles, slot);
    return slot;
}

// Frees a slot; what comes after it and belongs further in front moves up.
static void empty_index_slot(clua_handles *handles, uint32_t slot) {
    uint32_t mask = handles->index_size - 1;
    for (uint32_t next = index_slot_after(handles, slot); handles->index[next] != 0; next = index_slot_after(handles, next)) {
        uint32_t home = index_slot_of(handles, handle_at(handles, handles->index[next])->object);
        if (((next - home) & mask) < ((next - slot) & mask)) continue;
        handles->index[slot] = handles->index[next];
        slot = next;
    }
    handles->index[slot] = 0;
    handles->indexed--;
}

// False: there is no memory, and the index is as it was.
static bool resize_index(clua_handles *handles, uint32_t size) {
    uint32_t *index = calloc(size, sizeof *index), *old = handles->index, old_size = handles->index_size;
    if (index == NULL) return false;
    handles->index = index;
    handles->index_size = size;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != 0) index[find_index_slot(handles, handle_at(handles, old[i])->object)] = old[i];
    free(old);
    return true;
}

static bool has_index_slot(const clua_handles *handles) { return handles->indexed < handles->index_size / 2; }

// The place of the object's handle if it knows that itself, 0 when there is none; CLUA_NO_PLACE when the index knows.
static uint32_t own_place(const clua_state *state, const void *object) { return clua_object_place(object, state->object); }

uint32_t clua_find_place(const clua_state *state, const void *object) {
    uint32_t place = own_place(state, object);
    if (place != CLUA_NO_PLACE) return place;
    return state->handles.indexed == 0 ? 0 : state->handles.index[find_index_slot(&state->handles, object)];
}

// MARK: places

bool clua_has_place(const clua_state *state) { return state->handles.roomy != NULL && has_index_slot(&state->handles); }

void clua_need_place(lua_State *L) {
    clua_handles *handles = &clua_state_of(L)->handles;
    while (handles->roomy == NULL) add_chunk(L, handles);
    if (!has_index_slot(handles) && !resize_index(handles, handles->index_size == 0 ? LEAST_INDEX : 2 * handles->index_size))
        clua_no_memory(L);
}

void clua_take_place(clua_state *state, clua_handle *handle) {
    clua_handles *handles = &state->handles;
    clua_chunk *chunk = handles->roomy;
    uint32_t slot = chunk->free, place = chunk->number * CLUA_CHUNK_PLACES + slot + 1;
    chunk->free = (uint32_t)chunk->slots[slot];
    if (++chunk->used == CLUA_CHUNK_PLACES) remove_from_roomy(handles, chunk);
    chunk->slots[slot] = (uintptr_t)handle;
    if (++handles->used > handles->most_used) handles->most_used = handles->used;
    handle->place = place;
}

void clua_take_object(clua_state *state, clua_handle *handle, void *object) {
    clua_handles *handles = &state->handles;
    if (!clua_object_set_place(object, state->object, handle->place)) {
        uint32_t slot = find_index_slot(handles, object);
        handles->indexed += handles->index[slot] == 0;
        handles->index[slot] = handle->place;
    }
    handle->object = object;
}

void *clua_leave_place(clua_state *state, clua_handle *handle) {
    clua_handles *handles = &state->handles;
    void *object = handle->object;
    uint32_t own = object != NULL ? own_place(state, object) : 0;
    if (own == handle->place) {
        clua_object_set_place(object, state->object, 0);
    } else if (own == CLUA_NO_PLACE) {
        uint32_t slot = find_index_slot(handles, object);
        if (handles->index[slot] == handle->place) empty_index_slot(handles, slot);
    }
    clua_chunk *chunk = clua_chunk_of(handles, handle->place);
    uint32_t slot = (handle->place - 1) % CLUA_CHUNK_PLACES;
    chunk->slots[slot] = chunk->free;
    chunk->free = slot;
    handles->used--;
    if (chunk->used-- == CLUA_CHUNK_PLACES) add_to_roomy(handles, chunk);
    return object;
}

void clua_trim_places(lua_State *L) {
    clua_handles *handles = &clua_state_of(L)->handles;
    uint32_t needed = handles->most_used / CLUA_CHUNK_PLACES + 1;
    for (clua_chunk *chunk = handles->roomy, *next; chunk != NULL && handles->chunk_count > needed; chunk = next) {
        next = chunk->next;
        if (chunk->used == 0) remove_chunk(L, handles, chunk);
    }
    handles->most_used = handles->used;
    uint32_t size = LEAST_INDEX;
    while (size < 4 * handles->indexed) size *= 2;
    if (size <= handles->index_size / 4) resize_index(handles, size);
}

void clua_places_open(lua_State *L) {
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    clua_keep(L, CLUA_KEPT_WEAK_METATABLE);
}

void clua_places_close(clua_handles *handles) {
    for (uint32_t i = 0; i < handles->chunk_limit; i++) free(handles->chunks[i]);
    free(handles->chunks);
    free(handles->index);
}
