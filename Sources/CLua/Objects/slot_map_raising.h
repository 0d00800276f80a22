// The slot map of a state's handles, and the index that finds the slot of an object.
//
// Slots are grouped into pages. Each page has a weak table of its handles and a table of the pinned ones. Growing adds one small page,
// whatever the number of handles. A minor collection traverses only the tables that have changed, so it stays short, too.
#ifndef CLUA_SLOT_MAP_RAISING_H
#define CLUA_SLOT_MAP_RAISING_H

#include "Core/registry_raising.h"
#include "object.h"
#include "state.h"

/// Slots per page. A page stays allocated as long as it holds at least one handle.
enum { CLUA_PAGE_SLOTS = 64 };

typedef struct clua_slot_page {
    uint32_t number;
    uint32_t used;
    uint32_t free;  // the first free entry, from 0
    int handles, pins;  // registry references of two tables; the first is weak
    struct clua_slot_page *next, *previous;  // links of the list of pages with free slots
    uintptr_t entries[CLUA_PAGE_SLOTS];  // a handle, or the number of the next free entry
} clua_slot_page;

/// Prepares a fresh state. Needs 3 free stack slots.
void clua_slot_map_open(lua_State *L);

/// Reserves a slot for one more handle, and a bucket in the index. May raise. Needs 3 free stack slots.
void clua_reserve_slot(lua_State *L);

/// Whether a slot and a bucket are free. Neither this function nor any below raises.
bool clua_has_free_slot(const clua_state *state);

/// Gives the handle a slot. One must be reserved.
void clua_take_slot(clua_state *state, clua_handle *handle);

/// Gives the object to the handle, which has a slot. An older handle of the object, if any, is no longer found: only finalizers of scripts
/// refer to it.
void clua_take_object(clua_state *state, clua_handle *handle, void *object);

/// Frees the handle's slot, and returns its object, if any, to the caller.
void *clua_free_slot(clua_state *state, clua_handle *handle);

/// Frees the pages that were not needed since the last call. Needs 2 free stack slots.
void clua_trim_slot_map(lua_State *L);

/// Whether this is a handle rather than another userdata of the same size.
bool clua_has_handle(const clua_handles *handles, const clua_handle *handle);

/// The slot of the object's newest handle, or 0 if it has none.
uint32_t clua_find_slot(const clua_state *state, const void *object);

static inline clua_slot_page *clua_page_of(const clua_handles *handles, uint32_t slot) {
    return handles->pages[(slot - 1) / CLUA_PAGE_SLOTS];
}

/// The index of a slot in the tables of its page.
static inline lua_Integer clua_index_in_page(uint32_t slot) { return (slot - 1) % CLUA_PAGE_SLOTS + 1; }

/// Frees the slot map.
void clua_slot_map_close(clua_handles *handles);

#endif
