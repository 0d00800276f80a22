#include "Objects/slot_map_raising.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "Core/memory_raising.h"
#include "Objects/object_raising.h"

enum { LEAST_INDEX = 64 };

// MARK: pages

static uintptr_t *entry_at(const clua_handles *handles, uint32_t slot) {
    return &clua_page_of(handles, slot)->entries[(slot - 1) % CLUA_PAGE_SLOTS];
}

static clua_handle *handle_at(const clua_handles *handles, uint32_t slot) { return (clua_handle *)*entry_at(handles, slot); }

bool clua_has_handle(const clua_handles *handles, const clua_handle *handle) {
    // If this is no handle, `slot` is an arbitrary number.
    uint32_t number = (handle->slot - 1) / CLUA_PAGE_SLOTS;
    return number < handles->page_limit && handles->pages[number] != NULL && *entry_at(handles, handle->slot) == (uintptr_t)handle;
}

static void add_to_nonfull(clua_handles *handles, clua_slot_page *page) {
    page->next = handles->nonfull;
    page->previous = NULL;
    if (page->next != NULL) page->next->previous = page;
    handles->nonfull = page;
}

static void remove_from_nonfull(clua_handles *handles, clua_slot_page *page) {
    if (page->next != NULL) page->next->previous = page->previous;
    if (page->previous != NULL)
        page->previous->next = page->next;
    else
        handles->nonfull = page->next;
}

// Returns an unused page number, with room in the page array. May raise.
static uint32_t need_number(lua_State *L, clua_handles *handles) {
    while (handles->free_number < handles->page_limit && handles->pages[handles->free_number] != NULL) handles->free_number++;
    if (handles->free_number == handles->page_limit) {
        uint32_t limit = handles->page_limit == 0 ? 16 : 2 * handles->page_limit;
        clua_slot_page **pages = realloc(handles->pages, limit * sizeof *pages);
        if (pages == NULL) clua_no_memory(L);
        for (uint32_t i = handles->page_limit; i < limit; i++) pages[i] = NULL;
        handles->pages = pages;
        handles->page_limit = limit;
    }
    return handles->free_number;
}

static void add_page(lua_State *L, clua_handles *handles) {
    lua_createtable(L, CLUA_PAGE_SLOTS, 0);
    clua_push_kept(L, CLUA_KEPT_WEAK_METATABLE);
    lua_setmetatable(L, -2);
    lua_createtable(L, CLUA_PAGE_SLOTS, 0);
    // Creating the tables may have run finalizers of scripts, which may have added a page.
    if (handles->nonfull != NULL) {
        lua_pop(L, 2);
        return;
    }
    uint32_t number = need_number(L, handles);
    int pins = luaL_ref(L, LUA_REGISTRYINDEX), weak = luaL_ref(L, LUA_REGISTRYINDEX);
    clua_slot_page *page = malloc(sizeof *page);
    if (page == NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, weak);
        luaL_unref(L, LUA_REGISTRYINDEX, pins);
        clua_no_memory(L);
    }
    *page = (clua_slot_page){.number = number, .handles = weak, .pins = pins};
    for (uint32_t i = 0; i < CLUA_PAGE_SLOTS; i++) page->entries[i] = i + 1;
    handles->pages[number] = page;
    handles->page_count++;
    add_to_nonfull(handles, page);
}

static void remove_page(lua_State *L, clua_handles *handles, clua_slot_page *page) {
    luaL_unref(L, LUA_REGISTRYINDEX, page->handles);
    luaL_unref(L, LUA_REGISTRYINDEX, page->pins);
    remove_from_nonfull(handles, page);
    handles->pages[page->number] = NULL;
    handles->page_count--;
    if (page->number < handles->free_number) handles->free_number = page->number;
    free(page);
}

// MARK: the index

static uint32_t home_bucket(const clua_handles *handles, const void *object) {
    return (uint32_t)(((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (handles->index_size - 1);
}

static uint32_t next_bucket(const clua_handles *handles, uint32_t bucket) { return (bucket + 1) & (handles->index_size - 1); }

// Returns the bucket with the slot of the object's handle, or the free bucket where it belongs. The index always has a free bucket.
static uint32_t find_bucket(const clua_handles *handles, const void *object) {
    uint32_t bucket = home_bucket(handles, object);
    while (handles->index[bucket] != 0 && handle_at(handles, handles->index[bucket])->object != object)
        bucket = next_bucket(handles, bucket);
    return bucket;
}

// Empties a bucket, and moves up later entries that belong closer to their home bucket.
static void empty_bucket(clua_handles *handles, uint32_t bucket) {
    uint32_t mask = handles->index_size - 1;
    for (uint32_t next = next_bucket(handles, bucket); handles->index[next] != 0; next = next_bucket(handles, next)) {
        uint32_t home = home_bucket(handles, handle_at(handles, handles->index[next])->object);
        if (((next - home) & mask) < ((next - bucket) & mask)) continue;
        handles->index[bucket] = handles->index[next];
        bucket = next;
    }
    handles->index[bucket] = 0;
    handles->indexed--;
}

// Returns false, and leaves the index unchanged, if memory runs out.
static bool resize_index(clua_handles *handles, uint32_t size) {
    uint32_t *index = calloc(size, sizeof *index), *old = handles->index, old_size = handles->index_size;
    if (index == NULL) return false;
    handles->index = index;
    handles->index_size = size;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != 0) index[find_bucket(handles, handle_at(handles, old[i])->object)] = old[i];
    free(old);
    return true;
}

static bool has_free_bucket(const clua_handles *handles) { return handles->indexed < handles->index_size / 2; }

// The slot of the object's handle if the object stores it itself, 0 for none; CLUA_NO_SLOT if only the index can know.
static uint32_t own_slot(const clua_state *state, const void *object) { return clua_object_slot(object, state->object); }

uint32_t clua_find_slot(const clua_state *state, const void *object) {
    uint32_t slot = own_slot(state, object);
    if (slot != CLUA_NO_SLOT) return slot;
    return state->handles.indexed == 0 ? 0 : state->handles.index[find_bucket(&state->handles, object)];
}

// MARK: slots

bool clua_has_free_slot(const clua_state *state) { return state->handles.nonfull != NULL && has_free_bucket(&state->handles); }

void clua_reserve_slot(lua_State *L) {
    clua_handles *handles = &clua_state_of(L)->handles;
    while (handles->nonfull == NULL) add_page(L, handles);
    if (!has_free_bucket(handles) && !resize_index(handles, handles->index_size == 0 ? LEAST_INDEX : 2 * handles->index_size))
        clua_no_memory(L);
}

void clua_take_slot(clua_state *state, clua_handle *handle) {
    clua_handles *handles = &state->handles;
    clua_slot_page *page = handles->nonfull;
    uint32_t entry = page->free, slot = page->number * CLUA_PAGE_SLOTS + entry + 1;
    page->free = (uint32_t)page->entries[entry];
    if (++page->used == CLUA_PAGE_SLOTS) remove_from_nonfull(handles, page);
    page->entries[entry] = (uintptr_t)handle;
    if (++handles->used > handles->most_used) handles->most_used = handles->used;
    handle->slot = slot;
}

void clua_take_object(clua_state *state, clua_handle *handle, void *object) {
    clua_handles *handles = &state->handles;
    if (!clua_object_set_slot(object, state->object, handle->slot)) {
        uint32_t bucket = find_bucket(handles, object);
        handles->indexed += handles->index[bucket] == 0;
        handles->index[bucket] = handle->slot;
    }
    handle->object = object;
}

void *clua_free_slot(clua_state *state, clua_handle *handle) {
    clua_handles *handles = &state->handles;
    void *object = handle->object;
    uint32_t own = object != NULL ? own_slot(state, object) : 0;
    if (own == handle->slot) {
        clua_object_set_slot(object, state->object, 0);
    } else if (own == CLUA_NO_SLOT) {
        uint32_t bucket = find_bucket(handles, object);
        if (handles->index[bucket] == handle->slot) empty_bucket(handles, bucket);
    }
    clua_slot_page *page = clua_page_of(handles, handle->slot);
    uint32_t entry = (handle->slot - 1) % CLUA_PAGE_SLOTS;
    page->entries[entry] = page->free;
    page->free = entry;
    handles->used--;
    if (page->used-- == CLUA_PAGE_SLOTS) add_to_nonfull(handles, page);
    return object;
}

void clua_trim_slot_map(lua_State *L) {
    clua_handles *handles = &clua_state_of(L)->handles;
    uint32_t needed = handles->most_used / CLUA_PAGE_SLOTS + 1;
    for (clua_slot_page *page = handles->nonfull, *next; page != NULL && handles->page_count > needed; page = next) {
        next = page->next;
        if (page->used == 0) remove_page(L, handles, page);
    }
    handles->most_used = handles->used;
    uint32_t size = LEAST_INDEX;
    while (size < 4 * handles->indexed) size *= 2;
    if (size <= handles->index_size / 4) resize_index(handles, size);
}

void clua_slot_map_open(lua_State *L) {
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    clua_keep(L, CLUA_KEPT_WEAK_METATABLE);
}

void clua_slot_map_close(clua_handles *handles) {
    for (uint32_t i = 0; i < handles->page_limit; i++) free(handles->pages[i]);
    free(handles->pages);
    free(handles->index);
}
