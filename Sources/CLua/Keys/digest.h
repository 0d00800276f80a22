// A digest of tokens. Nothing here raises.
#ifndef CLUA_DIGEST_H
#define CLUA_DIGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "key.h"

/// Collects small tokens before the digest gets them, and passes long strings on as they are.
typedef struct digester {
    XXH3_state_t *state;
    size_t count;
    bool uses_state;  // the buffer was too small, so `state` has the first bytes
    uint8_t buffer[1024];
} digester;

static inline void digest_begin(digester *d) {
    d->count = 0;
    d->uses_state = false;
}

static inline void digest_flush(digester *d) {
    if (!d->uses_state) XXH3_128bits_reset(d->state);
    d->uses_state = true;
    XXH3_128bits_update(d->state, d->buffer, d->count);
    d->count = 0;
}

static inline void digest_bytes(digester *d, const void *bytes, size_t count) {
    if (count > sizeof d->buffer - d->count) digest_flush(d);
    if (count > sizeof d->buffer) {
        XXH3_128bits_update(d->state, bytes, count);
        return;
    }
    if (count > 0) memcpy(d->buffer + d->count, bytes, count);
    d->count += count;
}

static inline void digest_token(digester *d, uint8_t token) { digest_bytes(d, &token, 1); }
static inline void digest_number(digester *d, uint64_t number) { digest_bytes(d, &number, sizeof number); }

static inline void digest_text(digester *d, const char *bytes, size_t count) {
    digest_number(d, count);
    digest_bytes(d, bytes, count);
}

static inline clua_digest digest_end(digester *d) {
    if (d->uses_state) digest_flush(d);
    XXH128_hash_t digest = d->uses_state ? XXH3_128bits_digest(d->state) : XXH3_128bits(d->buffer, d->count);
    return (clua_digest){digest.low64, digest.high64};
}

#endif
