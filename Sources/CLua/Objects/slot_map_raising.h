// Where the handles of a state are, and how they are found by their objects.
//
// The places are in pages. Each has a weak table with the handles and a table with those that are pinned, so that neither making more room
// nor a collection, which looks at every table that has changed, takes longer because there are many handles.
#ifndef CLUA_SLOT_MAP_RAISING_H
#define CLUA_SLOT_MAP_RAISING_H

#include "Core/registry_raising.h"
#include "object.h"
#include "state.h"

/// Places in a page. Where a single handle is left, the room of so many is.
enum { CLUA_PAGE_SLOTS = 64 };

typedef struct clua_slot_page {
    uint32_t number;
    uint32_t used;
    uint32_t free;  // the first free slot, from 0 on
    int handles, pins;  // where the registry has the tables; the first is weak
    struct clua_slot_page *next, *previous;  // of those that have room
    uintptr_t entries[CLUA_PAGE_SLOTS];  // a handle, or the next free slot
} clua_slot_page;

/// Prepares a fresh state. Needs 3 free stack slots.
void clua_slot_map_open(lua_State *L);

/// Makes sure that there is a place for one more handle. May raise. Needs 3 free stack slots.
void clua_reserve_slot(lua_State *L);

/// Whether there is. Neither this nor anything that follows raises.
bool clua_has_free_slot(const clua_state *state);

/// Gives the handle a place, which there is.
void clua_take_slot(clua_state *state, clua_handle *handle);

/// Gives the handle, which has its place, the object. There may be an older handle of that, which is not found any more: nothing but
/// finalizers of scripts refers to it.
void clua_take_object(clua_state *state, clua_handle *handle, void *object);

/// Takes the place, and the object if there is one, from the handle.
void *clua_free_slot(clua_state *state, clua_handle *handle);

/// Gives back the room that has not been needed since this was called last. Needs 2 free stack slots.
void clua_trim_slot_map(lua_State *L);

/// Whether this is a handle, and not only as large.
bool clua_has_handle(const clua_handles *handles, const clua_handle *handle);

/// The place of the object's handle, the newest if it has several; 0 when it has none.
uint32_t clua_find_slot(const clua_state *state, const void *object);

static inline clua_slot_page *clua_page_of(const clua_handles *handles, uint32_t slot) {
    return handles->pages[(slot - 1) / CLUA_PAGE_SLOTS];
}

/// The index of a place in the tables of its page.
static inline lua_Integer clua_index_in_page(uint32_t slot) { return (slot - 1) % CLUA_PAGE_SLOTS + 1; }

/// Frees what they are in.
void clua_slot_map_close(clua_handles *handles);

#endif
