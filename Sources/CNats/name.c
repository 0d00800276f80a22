#include <xxhash.h>

#include "CNats.h"

static void write_name(XXH128_hash_t digest, uint8_t name[CNATS_NAME_COUNT]) { XXH128_canonicalFromHash((XXH128_canonical_t *)name, digest); }

void cnats_name(const void *bytes, size_t count, uint8_t name[CNATS_NAME_COUNT]) { write_name(XXH3_128bits(bytes, count), name); }

// A cnats_naming is an XXH3_state_t.

cnats_naming *cnats_naming_begin(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state != NULL) XXH3_128bits_reset(state);
    return (cnats_naming *)state;
}

void cnats_naming_add(cnats_naming *naming, const void *bytes, size_t count) { XXH3_128bits_update((XXH3_state_t *)naming, bytes, count); }

void cnats_naming_end(cnats_naming *naming, uint8_t name[CNATS_NAME_COUNT]) {
    write_name(XXH3_128bits_digest((XXH3_state_t *)naming), name);
    XXH3_freeState((XXH3_state_t *)naming);
}
