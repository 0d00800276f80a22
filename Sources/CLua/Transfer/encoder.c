#include "Transfer/encoder.h"

#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/shared_string.h"
#include "Transfer/parcel_analysis.h"
#include "Transfer/parcel_changes.h"
#include "object.h"

// MARK: memory

void *encoder_append(encoder *e, list *list, size_t size) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
        void *items = realloc(list->items, capacity * size);
        if (items == NULL) clua_no_memory(e->L);
        list->items = items;
        list->capacity = capacity;
    }
    return (char *)list->items + size * list->count++;
}

pointer_entry *encoder_meet(encoder *e, const void *key, bool *found) {
    pointer_entry *entry = pointer_map_get(&e->met, key, found);
    if (entry == NULL) clua_no_memory(e->L);
    return entry;
}

// Creates the table at `anchors` unless it exists.
static void need_anchors(encoder *e) {
    if (lua_istable(e->L, e->anchors)) return;
    clua_need_stack(e->L, 1);
    lua_createtable(e->L, 4, 0);
    lua_replace(e->L, e->anchors);
}

lua_Integer encoder_anchor(encoder *e) {
    need_anchors(e);
    lua_rawseti(e->L, e->anchors, ++e->anchor_count);
    return e->anchor_count;
}

// MARK: paths

const path_step *encoder_step(encoder *e, path_kind kind, lua_Integer number, const char *text, const char *label) {
    if (!e->is_tracking) return NULL;
    if (e->path_blocks == NULL || e->path_blocks->count == sizeof e->path_blocks->steps / sizeof *e->path_blocks->steps) {
        path_block *block = malloc(sizeof *block);
        if (block == NULL) clua_no_memory(e->L);
        block->next = e->path_blocks;
        block->count = 0;
        e->path_blocks = block;
    }
    path_step *step = &e->path_blocks->steps[e->path_blocks->count++];
    *step = (path_step){e->path, kind, number, text, label, e->path != NULL ? e->path->record : 0};
    return step;
}

const path_step *encoder_field_step(encoder *e) {
    lua_State *L = e->L;
    if (!e->is_tracking) return NULL;
    if (lua_isinteger(L, -2)) return encoder_step(e, PATH_ELEMENT, lua_tointeger(L, -2), NULL, NULL);
    if (lua_type(L, -2) != LUA_TSTRING) return encoder_step(e, PATH_OTHER, 0, luaL_typename(L, -2), NULL);
    size_t count;
    const char *name = lua_tolstring(L, -2, &count);
    lua_pushvalue(L, -2);
    encoder_anchor(e);  // a __transfer function might remove the key from the table
    return encoder_step(e, PATH_FIELD, (lua_Integer)count, name, NULL);
}

// MARK: environments and codes

uint32_t encoder_environment(encoder *e, int index) {
    bool found;
    pointer_entry *entry = encoder_meet(e, lua_topointer(e->L, index), &found);
    if (!found) entry->number = e->environment_count++;
    return entry->number;
}

uint32_t encoder_code(encoder *e, clua_code *code) {
    bool found;
    pointer_entry *entry = encoder_meet(e, code, &found);
    if (!found) {
        entry->number = (uint32_t)e->codes.count;
        *(clua_code **)encoder_append(e, &e->codes, sizeof code) = code;
        clua_code_give(code);
        if (e->analysis != NULL) analysis_add(e, code->dump_count);
    }
    return entry->number;
}

bool encoder_note_global(encoder *e, uint32_t environment, const char *label) {
    lua_State *L = e->L;
    lua_pushvalue(L, -1);
    if (!clua_global_differs(L, -3)) {
        lua_remove(L, -2);
        return false;
    }
    // Stack: environment, name, value. For each environment a table has the names that were added.
    bool is_noted = true;
    need_anchors(e);
    if (lua_rawgeti(L, e->anchors, -(lua_Integer)environment - 1) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 4);
        lua_pushvalue(L, -4);
        lua_rawseti(L, -2, 0);
        lua_pushvalue(L, -1);
        lua_rawseti(L, e->anchors, -(lua_Integer)environment - 1);
    }
    lua_pushvalue(L, -3);
    is_noted = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    if (!is_noted) {
        lua_pushvalue(L, -3);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
        const path_step *before = e->path;
        e->path = NULL;
        const path_step *step = encoder_step(e, PATH_GLOBAL, 0, lua_tostring(L, -3), label);
        e->path = before;
        lua_pushvalue(L, -3);
        lua_Integer name = encoder_anchor(e);
        lua_pushvalue(L, -2);
        encoder_anchor(e);
        *(global_read *)encoder_append(e, &e->globals, sizeof(global_read)) = (global_read){environment, name, step};
    }
    lua_pop(L, 3);
    return true;
}

// The environment on top is an upvalue of a function with this code.
void encoder_note_globals(encoder *e, const clua_code *code, int upvalue) {
    const clua_global_read *last = NULL;
    int environment = lua_gettop(e->L);
    bool is_sent = false;
    for (size_t i = 0; i < code->global_read_count; i++) {
        const clua_global_read *read = &code->global_reads[i];
        if (read->upvalue != upvalue) continue;
        // Reads of one global are next to each other, one for each field that is used.
        bool is_new = last == NULL || last->name_count != read->name_count || memcmp(last->name, read->name, read->name_count) != 0;
        last = read;
        if (is_new) {
            lua_settop(e->L, environment);
            lua_pushlstring(e->L, read->name, read->name_count);
            is_sent = encoder_note_global(e, encoder_environment(e, -2), code->label);
        }
        if (!is_sent) changes_of_global(e, read);
    }
    lua_settop(e->L, environment);
}

// MARK: completion

// Frees everything that no parcel has taken over.
void encoder_free(encoder *e) {
    pointer_map_free(&e->met);
    list *lists[] = {&e->bodies,  &e->globals,  &e->rebuilt,    &e->found,     &e->fixups,
                     &e->levels, &e->changes, &e->switches, &e->identities, &e->registries};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->items);
    while (e->path_blocks != NULL) {
        path_block *next = e->path_blocks->next;
        free(e->path_blocks);
        e->path_blocks = next;
    }
    for (size_t i = 0; i < e->codes.count; i++) clua_code_release(((clua_code **)e->codes.items)[i]);
    for (size_t i = 0; i < e->references.count; i++) clua_object_release(((clua_reference *)e->references.items)[i].object);
    for (size_t i = 0; i < e->strings.count; i++) clua_shared_string_release(((clua_shared_string **)e->strings.items)[i]);
    for (size_t i = 0; i < e->frozen.count; i++) clua_frozen_release(((const frozen_table **)e->frozen.items)[i]);
    free(e->frozen.items);
    free(e->strings.items);
    free(e->codes.items);
    free(e->references.items);
    free(e->more);
    writer_free(&e->writer);
}

void encoder_need_more(encoder *e) {
    if (e->references.count == 0 && e->strings.count == 0 && e->codes.count < 2 && e->frozen.count == 0) return;
    e->more = malloc(sizeof *e->more);
    if (e->more == NULL) clua_no_memory(e->L);
}

// Moves the result to `parcel`.
void encoder_fill(encoder *e, clua_parcel *parcel) {
    *parcel = (clua_parcel){.value_count = (uint32_t)e->count};
    if (e->more != NULL) {
        *e->more = (clua_parcel_more){
            .references = e->references.items,
            .reference_count = (uint32_t)e->references.count,
            .codes = e->codes.items,
            .code_count = (uint32_t)e->codes.count,
            .strings = e->strings.items,
            .string_count = (uint32_t)e->strings.count,
            .frozen = e->frozen.items,
            .frozen_count = (uint32_t)e->frozen.count,
        };
        parcel->more = e->more;
        parcel->has_more = true;
        e->more = NULL;
    } else if (e->codes.count == 1) {
        parcel->code = *(clua_code **)e->codes.items;
        free(e->codes.items);
    }
    writer_finish(&e->writer, parcel);
    e->references = e->codes = e->strings = e->frozen = (list){0};
}

