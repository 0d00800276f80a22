#include <lua5.4/lauxlib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Libraries/private_tables_raising.h"
#include "Objects/class_raising.h"
#include "Objects/unread_raising.h"
#include "Transfer/array_part_raising.h"
#include "Transfer/encoder.h"
#include "Transfer/frozen.h"
#include "Transfer/shared_string.h"
#include "Transfer/parcel_changes.h"
#include "Transfer/parcel_class.h"
#include "Transfer/parcel_flat.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_identity.h"
#include "Transfer/parcel_places.h"
#include "Transfer/parcel_rebuild.h"
#include "Transfer/parcel_analysis.h"
#include "object.h"
#include "parcel.h"

static void encode_typed(encoder *e, int depth, int type);

// MARK: paths

// Reports that the value on top cannot be sent, with its path. Returns only in an analysis pass.
static void refuse(encoder *e) {
    if (e->is_tracking)
        path_push_message(e->L, e->path, -1);
    else
        e->has_culprit = true;
    if (e->analysis == NULL) lua_error(e->L);
    analysis_note(e, -2);
}

// Encodes the value on top as the next step of the path, and pops it.
static inline void encode_step(encoder *e, int depth, path_kind kind, lua_Integer number, const char *text, const char *label) {
    if (!e->is_tracking) {
        encode_value(e, depth);
    } else {
        const path_step *before = e->path;
        e->path = encoder_step(e, kind, number, text, label);
        encode_value(e, depth);
        e->path = before;
    }
    lua_pop(e->L, 1);
}

// MARK: strings and names

// Shares a long string instead of copying it.
static void encode_shared(encoder *e, const char *bytes, size_t count) {
    clua_shared_string **string = encoder_append(e, &e->strings, sizeof *string);
    *string = clua_share_string(clua_state_of(e->L), bytes, count);
    if (*string == NULL) clua_no_memory(e->L);
    writer_byte(&e->writer, CLUA_TAG_STRING_SHARED);
    writer_varint(&e->writer, e->strings.count - 1);
}

static void encode_string(encoder *e, const char *bytes, size_t count) {
    // The analysis pass counts bytes, so it copies long strings, too.
    if (count >= CLUA_MIN_SHARED_STRING && e->analysis == NULL) return encode_shared(e, bytes, count);
    e->string_count++;
    write_text(&e->writer, bytes, count);
}

// Writes a name without a tag, because the reader expects a name there.
static void write_name(encoder *e, int index) {
    size_t count;
    const char *bytes = lua_tolstring(e->L, index, &count);
    writer_string(&e->writer, bytes, count);
}

static inline void write_again(parcel_writer *writer, uint32_t number) {
    writer_byte(writer, CLUA_TAG_STRING_AGAIN);
    writer_varint(writer, number);
}

// Table keys repeat, so a short one is written once. The key is below the value on top and belongs to pair `pair`.
static void encode_key_string(encoder *e, uint32_t pair) {
    size_t count;
    const char *bytes = lua_tolstring(e->L, -2, &count);
    known_key *known = &e->known_keys[pair % KNOWN_KEYS];
    if (known->bytes == bytes) return write_again(&e->writer, known->number);
    if (count <= CLUA_MAX_KEPT_STRING) {
        bool found;
        pointer_entry *entry = encoder_meet(e, bytes, &found);
        // The bytes of classes do not depend on the fields of their instances.
        if (found && entry->offset >= e->classes_end) {
            if (!e->writer.failed) e->writer.bytes[entry->offset] = CLUA_TAG_STRING_KEPT;
            *known = (known_key){bytes, entry->number};
            return write_again(&e->writer, entry->number);
        }
        entry->offset = e->writer.count;
        entry->number = e->string_count;
    }
    encode_string(e, bytes, count);
}

// If the value on top travels by name, writes the name and returns true.
static bool encode_by_name(encoder *e) {
    if (!clua_module_name(e->L, -1)) return false;
    bool has_field = !lua_isnil(e->L, -1);
    writer_byte(&e->writer, has_field ? CLUA_TAG_MODULE_FIELD : CLUA_TAG_MODULE);
    write_name(e, -2);
    if (has_field) write_name(e, -1);
    changes_of_named(e, lua_gettop(e->L) - 1);
    bool is_private = has_field && clua_is_path(lua_tostring(e->L, -1));
    lua_pop(e->L, 2);
    if (is_private && clua_has_weak_keys(e->L, -1)) identity_note_registry(e);
    return true;
}

// MARK: objects

// The tag at this offset, or NULL if memory ran out. The bytes are useless then.
static uint8_t *tag_at_offset(encoder *e, size_t offset) { return e->writer.failed ? NULL : &e->writer.bytes[offset]; }

pointer_entry *encode_again(encoder *e, const void *pointer) {
    bool found;
    pointer_entry *entry = encoder_meet(e, pointer, &found);
    if (!found) return entry;
    uint8_t *tag = tag_at_offset(e, entry->offset);
    if (tag != NULL && (*tag == CLUA_TAG_TABLE || *tag == CLUA_TAG_FUNCTION)) *tag += 1;
    writer_byte(&e->writer, CLUA_TAG_OBJECT_AGAIN);
    writer_varint(&e->writer, entry->ordinal);
    return NULL;
}

// Starts a new object: records its ordinal and the offset of its tag, and writes the tag.
uint32_t encode_begin(encoder *e, pointer_entry *entry, uint8_t tag) {
    entry->offset = e->writer.count;
    entry->ordinal = e->object_count;
    writer_byte(&e->writer, tag);
    return e->object_count++;
}

void encode_later(encoder *e, uint32_t ordinal) {
    lua_pushvalue(e->L, -1);
    lua_Integer number = encoder_anchor(e);
    *(postponed *)encoder_append(e, &e->bodies, sizeof(postponed)) = (postponed){ordinal, number, e->path};
}

// MARK: tables

static void encode_metatable(encoder *e, int depth) {
    lua_State *L = e->L;
    if (!lua_getmetatable(L, -1)) {
        writer_byte(&e->writer, CLUA_NO_METATABLE);
        return;
    }
    lua_pushnil(L);
    lua_pushvalue(L, -2);
    if (rebuild_later(e, 0)) {
        static const char message[] = "cannot send a metatable that has a __transfer of its own";
        if (e->analysis == NULL) luaL_error(L, message);
        lua_pushstring(L, message);
        analysis_note(e, -2);
    }
    lua_pop(L, 2);
    // The finalizer of a copy would release what the object still uses.
    lua_pushliteral(L, "__gc");
    bool has_finalizer = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
    if (has_finalizer) {
        lua_pushvalue(L, -2);
        refuse(e);
        lua_pop(L, 1);
    }
    writer_byte(&e->writer, CLUA_METATABLE);
    size_t tag_at = e->writer.count;
    lua_pushvalue(L, -1);
    encode_step(e, depth, PATH_METATABLE, 0, NULL, NULL);
    identity_note_metatable(e, tag_at);
    lua_pop(L, 1);
}

// Encodes the key below the value on top, of pair `pair`.
static void encode_key(encoder *e, int depth, int type, uint32_t pair) {
    if (type == LUA_TSTRING) return encode_key_string(e, pair);
    lua_pushvalue(e->L, -2);
    encode_step(e, depth, PATH_KEY, 0, NULL, NULL);
}

static void encode_table_body(encoder *e, int depth) {
    lua_State *L = e->L;
    int table = lua_gettop(L);
    size_t counts_at = e->writer.count;
    uint32_t counts[2] = {0, 0};  // values at 1, 2, 3 …; pairs
    lua_Integer places = 0;
    writer_bytes(&e->writer, counts, sizeof counts);
    bool in_sequence = true, has_meta_names = false;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        const path_step *before = e->path, *step = encoder_field_step(e);
        e->path = step;
        int key_type = lua_type(L, -2), type = lua_type(L, -1);
        if (key_type == LUA_TSTRING && clua_is_meta_name(lua_tostring(L, -2))) has_meta_names = true;
        bool is_later = (rebuild_possible(L, -2, key_type) || rebuild_possible(L, -1, type)) && rebuild_later(e, table);
        bool is_next = places == 0 && key_type == LUA_TNUMBER && lua_isinteger(L, -2) && lua_tointeger(L, -2) == (lua_Integer)counts[0] + 1;
        in_sequence = in_sequence && (is_next || encode_nils(e, table, lua_gettop(L) - 1, &counts[0], &places));
        if (in_sequence) {
            counts[0]++;
        } else if (is_later) {
            counts[1]++;
            writer_byte(&e->writer, CLUA_TAG_NIL);
        } else {
            e->path = before;
            encode_key(e, depth, key_type, counts[1]++);
            e->path = step;
        }
        if (is_later)
            writer_byte(&e->writer, CLUA_TAG_NIL);
        else
            encode_typed(e, depth, type);
        lua_pop(L, 1);
        e->path = before;
    }
    // Some of the values may be in the hash part.
    bool is_mixed = counts[0] > 0 && counts[1] > 0;
    if (is_mixed && clua_array_places(L, table, counts[0]) == CLUA_IN_HASH_PART) counts[0] |= CLUA_NO_ARRAY_PART;
    if (!e->writer.failed) memcpy(e->writer.bytes + counts_at, counts, sizeof counts);
    encode_metatable(e, depth);
    if (has_meta_names) identity_note(e, false);
}

static void encode_table(encoder *e, int depth) {
    lua_State *L = e->L;
    if (clua_is_environment(L, -1)) {
        writer_byte(&e->writer, CLUA_TAG_ENVIRONMENT);
        writer_varint(&e->writer, encoder_environment(e, -1));
        return;
    }
    if (encode_by_name(e)) return;
    const clua_handle *class = clua_class_handle(L, -1);
    if (class != NULL) return encode_class(e, class);
    clua_show_status(L, -1);
    pointer_entry *entry = encode_again(e, lua_topointer(L, -1));
    if (entry == NULL) return;
    if (depth < CLUA_INLINE_DEPTH) {
        encode_begin(e, entry, CLUA_TAG_TABLE);
        encode_table_body(e, depth + 1);
    } else {
        encode_later(e, encode_begin(e, entry, CLUA_TAG_TABLE_LATER));
        encode_room(e);
    }
}

// MARK: functions

// Encodes the value on top, and pops it. It is upvalue `number` of the function at `container`, or value `number` of the parcel if
// `container` is 0.
static void encode_slot(encoder *e, int container, int number, int depth, const path_step *step) {
    e->path = step;
    lua_pushinteger(e->L, number);
    lua_insert(e->L, -2);
    if (rebuild_later(e, container))
        writer_byte(&e->writer, CLUA_TAG_NIL);
    else
        encode_value(e, depth);
    lua_pop(e->L, 2);
}

static void encode_upvalues(encoder *e, const clua_code *code, uint32_t ordinal, size_t tag_at, int depth) {
    lua_State *L = e->L;
    int function = lua_gettop(L);
    if (e->is_tracking) {
        lua_pushvalue(L, function);
        encoder_anchor(e);  // keeps the function's code, which has the names of the upvalues
    }
    changes_of_methods(e, code);
    for (int i = 1; i <= code->upvalue_count; i++) {
        bool found;
        pointer_entry *cell = encoder_meet(e, lua_upvalueid(L, function, i), &found);
        if (found) {
            uint8_t *tag = tag_at_offset(e, cell->offset);
            if (tag != NULL && *tag == CLUA_TAG_FUNCTION) *tag = CLUA_TAG_FUNCTION_KEPT;
            writer_byte(&e->writer, CLUA_TAG_UPVALUE_AGAIN);
            writer_varint(&e->writer, cell->ordinal);
            writer_varint(&e->writer, cell->number);
            if (!lua_getupvalue(L, function, i)) continue;
            // This function may read other globals of the same environment.
            if (lua_istable(L, -1) && code->global_read_count > 0 && clua_is_environment(L, -1)) encoder_note_globals(e, code, i);
            lua_pop(L, 1);
            continue;
        }
        *cell = (pointer_entry){cell->key, tag_at, ordinal, (uint32_t)i};
        const char *name = lua_getupvalue(L, function, i);
        if (code->global_read_count > 0 && lua_istable(L, -1) && clua_is_environment(L, -1)) encoder_note_globals(e, code, i);
        const path_step *before = e->path;
        e->path = NULL;
        const path_step *step = encoder_step(e, PATH_UPVALUE, 0, name, code->label);
        if (e->analysis != NULL && strcmp(name, "_ENV") != 0) analysis_begin(e, (path_step *)step);
        encode_slot(e, function, i, depth, step);
        encoder_follow(e, before);
    }
}

// Refers to the value on top, which is rebuilt, or refuses it.
static void encode_rebuilt(encoder *e) {
    const void *pointer = lua_topointer(e->L, -1);
    bool found, is_rebuilt = encoder_meet(e, pointer, &found)->number != 0;
    if (is_rebuilt)
        encode_again(e, pointer);
    else
        refuse(e);
}

static void encode_function(encoder *e, int depth) {
    lua_State *L = e->L;
    if (encode_by_name(e)) return;
    if (lua_iscfunction(L, -1)) return encode_rebuilt(e);
    pointer_entry *entry = encode_again(e, lua_topointer(L, -1));
    if (entry == NULL) return;
    bool is_later = depth >= CLUA_INLINE_DEPTH;
    uint32_t ordinal = encode_begin(e, entry, is_later ? CLUA_TAG_FUNCTION_LATER : CLUA_TAG_FUNCTION);
    size_t tag_at = e->writer.count - 1;
    clua_code *code = clua_code_of(L, lua_gettop(L));
    writer_varint(&e->writer, encoder_code(e, code));
    if (is_later)
        encode_later(e, ordinal);
    else
        encode_upvalues(e, code, ordinal, tag_at, depth + 1);
}

// MARK: values

static void encode_frozen(encoder *e, const frozen_table *table) {
    writer_byte(&e->writer, CLUA_TAG_FROZEN);
    writer_varint(&e->writer, e->frozen.count);
    *(const frozen_table **)encoder_append(e, &e->frozen, sizeof table) = table;
    clua_frozen_retain(table);
    if (e->analysis != NULL) analysis_add(e, table->owner->size);
}

static void encode_userdata(encoder *e) {
    clua_handle *handle = clua_to_handle(e->L, -1);
    if (handle == NULL || handle->object == NULL) {
        const frozen_table *frozen = clua_to_frozen(e->L, -1);
        if (frozen != NULL) return encode_frozen(e, frozen);
        if (!encode_by_name(e)) encode_rebuilt(e);
        return;
    }
    encode_handle(e, handle);
}

void encode_value(encoder *e, int depth) { encode_typed(e, depth, lua_type(e->L, -1)); }

// Encodes the value on top, which has this type, and leaves it there. `depth` counts the objects around it.
static void encode_typed(encoder *e, int depth, int type) {
    lua_State *L = e->L;
    size_t count;
    const char *bytes;
    switch (type) {
    case LUA_TNIL: writer_byte(&e->writer, CLUA_TAG_NIL); break;
    case LUA_TBOOLEAN: writer_byte(&e->writer, lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE); break;
    case LUA_TNUMBER: write_number(&e->writer, L, -1); break;
    case LUA_TSTRING:
        bytes = lua_tolstring(L, -1, &count);
        encode_string(e, bytes, count);
        break;
    case LUA_TTABLE:
        clua_need_stack(L, 20);
        encode_table(e, depth);
        break;
    case LUA_TFUNCTION:
        clua_need_stack(L, 20);
        encode_function(e, depth);
        break;
    case LUA_TUSERDATA:
        clua_need_stack(L, 20);
        encode_userdata(e);
        break;
    default:
        clua_need_stack(L, 20);
        if (lua_type(L, -1) != LUA_TLIGHTUSERDATA || !encode_by_name(e)) refuse(e);
    }
}

// MARK: parcels

static void encode_root(encoder *e, int number) {
    path_kind kind = e->role == CLUA_RESULTS ? PATH_RESULT : e->role == CLUA_STORED ? PATH_VALUE : PATH_ARGUMENT;
    int shown = e->role == CLUA_BODY ? number - 1 : number;
    lua_pushvalue(e->L, 1 + number);
    encode_slot(e, 0, number, 0, encoder_step(e, shown == 0 ? PATH_MAIN : kind, shown, NULL, NULL));
}

static void encode_body_record(encoder *e, postponed body) {
    lua_State *L = e->L;
    lua_rawgeti(L, e->anchors, body.anchor);
    encoder_follow(e, body.path);
    if (clua_class_handle(L, -1) != NULL) {
        encode_class_record(e, body.ordinal);
        lua_pop(L, 1);
        return;
    }
    writer_byte(&e->writer, CLUA_TAG_BODY);
    writer_varint(&e->writer, body.ordinal);
    if (lua_istable(L, -1)) {
        encode_table_body(e, 1);
    } else {
        clua_code *code = clua_code_of(L, lua_gettop(L));
        encoder_code(e, code);  // retains it
        // A function in a record always has the tag LATER, which is never patched.
        encode_upvalues(e, code, body.ordinal, 0, 1);
    }
    lua_pop(L, 1);
}

static void encode_global_record(encoder *e, global_read read) {
    lua_State *L = e->L;
    if (!e->writer.failed) e->writer.bytes[0] |= CLUA_HAS_GLOBALS;
    encoder_follow(e, read.path);
    lua_rawgeti(L, e->anchors, -1 - (lua_Integer)read.environment);
    lua_rawgeti(L, -1, 0);
    lua_rawgeti(L, e->anchors, read.anchor);
    lua_rawgeti(L, e->anchors, read.anchor + 1);
    if (e->analysis != NULL) analysis_begin(e, (path_step *)read.path);
    if (!rebuild_later(e, lua_gettop(L) - 2)) {
        writer_byte(&e->writer, CLUA_TAG_GLOBAL);
        writer_varint(&e->writer, read.environment);
        write_name(e, -2);
        encode_value(e, 0);
    }
    lua_pop(L, 4);
}

// Encodes all values. Stack: the encoder as light userdata, then the values.
int encode_all(lua_State *L) {
    encoder *e = lua_touserdata(L, 1);
    e->L = L;
    clua_need_stack(L, 20);
    e->anchors = 1;  // for now this is the index of the light userdata
    writer_byte(&e->writer, 0);
    bool is_class = e->role == CLUA_STORED && e->count == 1 && lua_istable(L, 2) && clua_class_handle(L, 2) != NULL;
    e->sends_changes = e->role == CLUA_BODY || e->role == CLUA_INVOCATION || is_class;
    classes_write(e);
    for (int i = 1; i <= e->count; i++) encode_root(e, i);
    size_t global = 0, registry = 0;
    do {
        do {
            while (e->bodies.count > 0 || global < e->globals.count || registry < e->registries.count) {
                if (e->bodies.count > 0)
                    encode_body_record(e, ((postponed *)e->bodies.items)[--e->bodies.count]);
                else if (global == e->globals.count)
                    identity_write_registry(e, registry++);
                else
                    encode_global_record(e, ((global_read *)e->globals.items)[global++]);
            }
        } while (changes_write_next(e));
    } while (rebuild_next(e));
    writer_byte(&e->writer, CLUA_TAG_END);
    if (e->identities.count > 0) identity_write(e);
    classes_share(e);
    changes_write_switches(e);
    if (e->writer.failed) clua_no_memory(L);
    if (e->analysis != NULL) analysis_end(e);
    encoder_need_more(e);
    return 0;
}

static int attempt(lua_State *L, int count, clua_parcel_role role, bool is_tracking, clua_parcel *parcel, bool *has_culprit) {
    encoder e = {.count = count, .role = role, .is_tracking = is_tracking};
    writer_init(&e.writer);
    pointer_map_init(&e.met);
    int first = lua_gettop(L) - count + 1;
    lua_pushcfunction(L, encode_all);
    lua_pushlightuserdata(L, &e);
    for (int i = 0; i < count; i++) lua_pushvalue(L, first + i);
    int status = lua_pcall(L, 1 + count, 0, 0);
    *has_culprit = e.has_culprit;
    if (status == LUA_OK) encoder_fill(&e, parcel);
    encoder_free(&e);
    return status;
}

int encode_values(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel) {
    if (count == 1 && encode_flat(L, parcel)) return LUA_OK;
    if (!lua_checkstack(L, count + 4)) {
        lua_settop(L, lua_gettop(L) - 1);  // makes room for the message; the caller no longer needs the values
        lua_pushnil(L);
        return LUA_ERRMEM;
    }
    bool has_culprit;
    int status = attempt(L, count, role, false, parcel, &has_culprit);
    if (status == LUA_OK || !has_culprit) return status;
    // Try once more, with paths, to name the culprit. The state may have missed the loading of a module. If the culprit belongs to that module, it
    // travels by name this time.
    lua_pop(L, 1);
    clua_modules_changed(L);
    return attempt(L, count, role, true, parcel, &has_culprit);
}
