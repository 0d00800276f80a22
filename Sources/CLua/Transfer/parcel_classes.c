// The classes with numbers, which are written before the values of a parcel. So their bytes depend on the values only by the tags of the objects that
// these refer to, and the parcels that a state sends share them.
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_identity.h"
#include "Transfer/parcel_rebuild.h"
#include "Transfer/shared_string.h"

// Only a class that is found soon is written first. The search decides about the size of parcels, not about their meaning.
enum { MOST_FIELDS = 8, MOST_KEPT_BYTES = 1 << 16 };

// MARK: encoding

// The first function of a parcel has the first code, and its globals are the first environment.
static void number_body(encoder *e) {
    lua_State *L = e->L;
    if (!lua_isfunction(L, 2) || lua_iscfunction(L, 2) || !travels_by_value(L, 2)) return;
    encoder_code(e, clua_code_of(L, 2));
    for (int i = 1; lua_getupvalue(L, 2, i) != NULL; i++) {
        if (lua_istable(L, -1) && clua_is_environment(L, -1)) encoder_environment(e, -1);
        lua_pop(L, 1);
    }
}

static bool has_number(lua_State *L, int numbers) {
    lua_pushvalue(L, -1);
    bool has = lua_rawget(L, numbers) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

// If the value on top, which is in the value of the parcel at `root`, is a class or an instance, writes the class once. Returns whether it is an instance.
static bool write_class(encoder *e, int numbers, int root) {
    lua_State *L = e->L;
    int value = lua_gettop(L);
    if (!lua_istable(L, value)) return false;
    bool is_class = has_number(L, numbers), is_instance = !is_class && lua_getmetatable(L, value) && has_number(L, numbers);
    int class = lua_gettop(L);
    bool is_new = (is_class || is_instance) && pointer_map_find(&e->met, lua_topointer(L, class)) == NULL;
    bool is_sent = is_new && travels_by_value(L, root) && (lua_rawequal(L, root, value) || travels_by_value(L, value));
    if (is_sent && (is_class || travels_by_value(L, class))) {
        if (e->writer.count == 1) number_body(e);
        encode_value(e, 0);
    }
    lua_settop(L, value);
    return is_instance;
}

static void write_classes_of_root(encoder *e, int numbers, int root) {
    lua_State *L = e->L;
    lua_pushvalue(L, root);
    if (lua_isfunction(L, root)) {
        for (int i = 1; lua_getupvalue(L, root, i) != NULL; i++) {
            write_class(e, numbers, root);
            lua_pop(L, 1);
        }
    } else if (write_class(e, numbers, root)) {
        lua_pushnil(L);
        for (int i = 0; i < MOST_FIELDS && lua_next(L, root); i++) {
            write_class(e, numbers, root);
            lua_pop(L, 1);
        }
    } else if (lua_istable(L, root)) {
        lua_rawgeti(L, root, 1);
        write_class(e, numbers, root);
    }
    lua_settop(L, numbers);
}

void classes_write(encoder *e) {
    lua_State *L = e->L;
    // An error names the way to a value from where the script has it. A function of a frozen value has no long strings.
    if (!clua_state_of(L)->has_classes || e->is_tracking || (e->role == CLUA_STORED && lua_isfunction(L, 2))) return;
    clua_push_kept(L, CLUA_KEPT_IDENTITIES);
    for (int i = 1, numbers = lua_gettop(L); i <= e->count; i++) write_classes_of_root(e, numbers, 1 + i);
    lua_pop(L, 1);
    if (e->writer.failed || e->writer.count == 1) return;
    identity_write(e);
    e->classes_end = e->writer.count;
    e->writer.bytes[0] = 0;  // the other values have flags of their own
}

void classes_share(encoder *e) {
    if (e->classes_end == 0 || e->writer.failed) return;
    clua_state *state = clua_state_of(e->L);
    const char *bytes = (const char *)e->writer.bytes + 1;
    size_t count = e->classes_end - 1;
    clua_shared_string **string = encoder_append(e, &e->strings, sizeof *string);
    *string = NULL;
    for (int i = 0; i < CLUA_LAST_CLASSES && *string == NULL; i++) {
        clua_shared_string *last = state->last_classes[i];
        if (last != NULL && last->count == count && memcmp(last->bytes, bytes, count) == 0) *string = last;
    }
    if (*string == NULL) {
        *string = clua_shared_string_copy(bytes, count);
        if (*string == NULL) clua_no_memory(e->L);
        clua_shared_string **oldest = &state->last_classes[state->sent_classes++ % CLUA_LAST_CLASSES];
        if (count <= MOST_KEPT_BYTES) {
            clua_shared_string_release(*oldest);
            *oldest = *string;
        }
    }
    if (count <= MOST_KEPT_BYTES) atomic_fetch_add(&(*string)->owners, 1);
    writer_remove(&e->writer, 1, e->classes_end);
    e->writer.bytes[0] |= CLUA_HAS_CLASSES;
}

// MARK: decoding

void classes_read(decoder *d) {
    size_t count = clua_parcel_string_count(d->parcel);
    if (count == 0) reader_malformed(&d->reader);
    const clua_shared_string *string = clua_parcel_string(d->parcel, count - 1);
    parcel_reader rest = d->reader;
    d->reader.next = (const uint8_t *)string->bytes;
    d->reader.end = d->reader.next + string->count;
    identity_read(d);
    while (d->reader.next != d->reader.end) {
        decode_value(d, 0);
        lua_pop(d->L, 1);
    }
    d->reader = rest;
}
