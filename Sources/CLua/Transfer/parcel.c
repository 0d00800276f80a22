// The ownership of parcels, and decoding as seen from outside.
#include "parcel.h"

#include <stdlib.h>

#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/code.h"
#include "Transfer/frozen.h"
#include "Transfer/shared_string.h"
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
