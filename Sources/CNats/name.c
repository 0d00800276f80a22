#include <xxhash.h>

#include "CNats.h"

void cnats_name(const void *bytes, size_t count, uint8_t name[CNATS_NAME_COUNT]) {
    XXH128_canonicalFromHash((XXH128_canonical_t *)name, XXH3_128bits(bytes, count));
}
