#include "Transfer/lent_string.h"

#include <stdint.h>
#include <stdlib.h>

// Lua's block of a string ends with the string and its zero: by its end a string is found, whatever Lua has put before it.
static const char *end_of(const char *bytes, size_t count) { return bytes + count + 1; }

static clua_lent_string **bucket_of(clua_lent_string **buckets, size_t bucket_count, const char *end) {
    return &buckets[(size_t)(((uint64_t)(uintptr_t)end * 0x9E3779B97F4A7C15u) >> 32) & (bucket_count - 1)];
}

// Where the table refers to the string that ends there, or would.
static clua_lent_string **find(const clua_lent_strings *lent, const char *end) {
    clua_lent_string **place = bucket_of(lent->buckets, lent->bucket_count, end);
    while (*place != NULL && end_of((*place)->bytes, (*place)->count) != end) place = &(*place)->next;
    return place;
}

// Without memory the table stays as it is, unless there is none.
static bool grow(clua_lent_strings *lent) {
    if (lent->count < lent->bucket_count) return true;
    size_t bucket_count = lent->bucket_count == 0 ? 16 : 2 * lent->bucket_count;
    clua_lent_string **buckets = calloc(bucket_count, sizeof *buckets);
    if (buckets == NULL) return lent->bucket_count > 0;
    for (size_t i = 0; i < lent->bucket_count; i++) {
        while (lent->buckets[i] != NULL) {
            clua_lent_string *string = lent->buckets[i];
            lent->buckets[i] = string->next;
            clua_lent_string **place = bucket_of(buckets, bucket_count, end_of(string->bytes, string->count));
            string->next = *place;
            *place = string;
        }
    }
    free(lent->buckets);
    lent->buckets = buckets;
    lent->bucket_count = bucket_count;
    return true;
}

clua_lent_string *clua_lend_string(clua_state *state, const char *bytes, size_t count) {
    clua_lent_strings *lent = &state->lent;
    if (!grow(lent)) return NULL;
    clua_lent_string **place = find(lent, end_of(bytes, count)), *string = *place;
    if (string != NULL) {
        atomic_fetch_add(&string->owners, 1);
        return string;
    }
    string = malloc(sizeof *string);
    if (string == NULL) return NULL;
    *string = (clua_lent_string){.bytes = bytes, .count = count};
    atomic_init(&string->owners, 2);
    *place = string;
    lent->count++;
    return string;
}

void clua_lent_string_release(clua_lent_string *string) {
    if (string == NULL || atomic_fetch_sub(&string->owners, 1) != 1) return;
    free(string->block);
    free(string);
}

bool clua_hand_over_block(clua_state *state, void *block, size_t size) {
    clua_lent_strings *lent = &state->lent;
    if (lent->count == 0) return false;
    clua_lent_string **place = find(lent, (const char *)block + size), *string = *place;
    if (string == NULL) return false;
    *place = string->next;
    lent->count--;
    string->block = block;
    clua_lent_string_release(string);
    return true;
}

void clua_lent_strings_free(clua_state *state) {
    free(state->lent.buckets);
    state->lent = (clua_lent_strings){0};
}
