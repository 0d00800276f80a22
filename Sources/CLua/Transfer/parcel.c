// The ownership of parcels, and decoding as seen from outside.
#include "parcel.h"

#include <stdlib.h>

#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/code.h"
#include "Transfer/encoder.h"
#include "Transfer/frozen.h"
#include "Transfer/shared_string.h"
#include "ledger.h"
#include "Transfer/parcel_flat.h"
#include "Transfer/parcel_raising.h"
#include "object.h"

typedef struct decoding {
    const clua_parcel *parcel;
    clua_environment environment;
} decoding;

static int decode_all(lua_State *L) {
    const decoding *decoding = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_settop(L, CLUA_DECODING_SLOTS);
    clua_decode_here(L, decoding->parcel, decoding->environment);
    return lua_gettop(L) - CLUA_DECODING_SLOTS;
}

int clua_decode(lua_State *L, const clua_parcel *parcel, clua_environment environment) {
    int status;
    if (decode_flat(L, parcel, &status)) return status;
    decoding decoding = {parcel, environment};
    lua_pushcfunction(L, decode_all);
    lua_pushlightuserdata(L, &decoding);
    return lua_pcall(L, 1, LUA_MULTRET, 0);
}

void clua_parcel_disown(clua_parcel *parcel, const void *owner) {
    for (size_t i = 0; i < clua_parcel_reference_count(parcel); i++) {
        clua_reference *reference = clua_parcel_reference(parcel, i);
        if (reference->object != owner || reference->is_unowned) continue;
        reference->is_unowned = true;
        parcel->is_disowned = true;
        clua_object_release(reference->object);
    }
}

// MARK: counting

// The bytes of the parcel alone, with those that an allocator adds to blocks.
static size_t own_size(const clua_parcel *parcel) {
    enum { BLOCK = 16 };
    const clua_parcel_more *more = parcel->more;
    size_t size = sizeof(clua_parcel) + sizeof *more + 2 * BLOCK + (parcel->has_block ? parcel->byte_count + BLOCK : 0);
    return size + more->reference_count * sizeof *more->references
        + (more->string_count + more->code_count + more->frozen_count) * sizeof(void *);
}

// Counts the strings and the code that no other parcel of the ledger has, or no longer counts them.
static void count_parts(const clua_parcel_more *more, bool begins) {
    for (size_t i = 0; i < more->string_count; i++) {
        clua_shared_string *string = more->strings[i];
        size_t size = sizeof *string + string->count;
        if (begins && atomic_fetch_add(&string->counted, 1) == 0) clua_ledger_add(more->ledger, size);
        if (!begins && atomic_fetch_sub(&string->counted, 1) == 1) clua_ledger_subtract(more->ledger, size);
    }
    for (size_t i = 0; i < more->code_count; i++) {
        clua_code *code = more->codes[i];
        if (begins && atomic_fetch_add(&code->counted, 1) == 0) clua_ledger_add(more->ledger, clua_code_size(code));
        if (!begins && atomic_fetch_sub(&code->counted, 1) == 1) clua_ledger_subtract(more->ledger, clua_code_size(code));
    }
}

// Gives a parcel the parts that only few have. Returns false if memory has run out.
static bool need_more(clua_parcel *parcel) {
    if (parcel->has_more) return true;
    clua_parcel_more *more = calloc(1, sizeof *more);
    clua_code **codes = parcel->code == NULL ? NULL : malloc(sizeof *codes);
    if (more == NULL || (parcel->code != NULL && codes == NULL)) {
        free(more);
        free(codes);
        return false;
    }
    if (codes != NULL) {
        *codes = parcel->code;
        more->codes = codes;
        more->code_count = 1;
    }
    parcel->more = more;
    return parcel->has_more = true;
}

bool clua_parcel_charge(clua_parcel *parcel, clua_ledger *ledger) {
    bool is_few = !parcel->has_block && !parcel->has_more && parcel->code == NULL;
    if (ledger == NULL || is_few) return true;
    if (!need_more(parcel)) return false;
    clua_parcel_more *more = parcel->more;
    if (more->ledger != NULL) return true;
    more->ledger = ledger;
    clua_ledger_retain(ledger);
    clua_ledger_add(ledger, own_size(parcel));
    count_parts(more, true);
    for (size_t i = 0; i < more->frozen_count; i++) clua_frozen_charge(more->frozen[i]->owner, ledger);
    return true;
}

int clua_encode(lua_State *L, int count, clua_parcel_role role, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    int status = encode_values(L, count, role, parcel);
    clua_ledger *ledger = clua_state_of(L)->ledger;
    if (status != LUA_OK || ledger == NULL) return status;
    bool is_counted = clua_parcel_charge(parcel, ledger);
    if (is_counted && clua_make_room(L, 0)) return LUA_OK;
    clua_parcel_release(parcel);
    // Without room on the stack, the values make room for the message; the caller no longer needs them.
    if (!lua_checkstack(L, 4)) lua_settop(L, lua_gettop(L) - 1);
    if (is_counted) return clua_refuse_to_keep(L);
    lua_pushnil(L);
    return LUA_ERRMEM;
}

// MARK: releasing

static void release_more(clua_parcel_more *more) {
    for (size_t i = 0; i < more->code_count; i++) clua_code_release(more->codes[i]);
    for (size_t i = 0; i < more->reference_count; i++)
        if (!more->references[i].is_unowned) clua_object_release_in_turn(more->references[i].object);
    for (size_t i = 0; i < more->string_count; i++) clua_shared_string_release(more->strings[i]);
    for (size_t i = 0; i < more->frozen_count; i++) clua_frozen_release(more->frozen[i]);
    free(more->frozen);
    free(more->strings);
    free(more->codes);
    free(more->references);
    free(more);
}

size_t clua_parcel_size(const clua_parcel *parcel) {
    size_t size = parcel->byte_count;
    if (!parcel->has_more) return size;
    for (size_t i = 0; i < parcel->more->string_count; i++) size += parcel->more->strings[i]->count;
    for (size_t i = 0; i < parcel->more->frozen_count; i++) size += parcel->more->frozen[i]->owner->size;
    return size;
}

bool clua_parcel_has_objects(const clua_parcel *parcel) {
    if (clua_parcel_reference_count(parcel) > 0) return true;
    for (size_t i = 0; i < clua_parcel_frozen_count(parcel); i++)
        if (clua_parcel_frozen(parcel, i)->owner->has_objects) return true;
    return false;
}

void clua_parcel_release(clua_parcel *parcel) {
    if (parcel->has_more && parcel->more->ledger != NULL) {
        count_parts(parcel->more, false);
        clua_ledger_subtract(parcel->more->ledger, own_size(parcel));
        clua_ledger_release(parcel->more->ledger);
    }
    if (parcel->has_more)
        release_more(parcel->more);
    else
        clua_code_release(parcel->code);
    if (parcel->has_block) free(parcel->bytes);
    *parcel = (clua_parcel){0};
}

void clua_transport_open(lua_State *L) {
    clua_environment_open(L);
    clua_modules_open(L);
    clua_code_open(L);
}
