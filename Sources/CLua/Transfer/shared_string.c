#include "Transfer/shared_string.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

// The block of a Lua string ends with its bytes and a zero. So the end identifies the string, whatever precedes the bytes.
static const char *end_of(const char *bytes, size_t count) { return bytes + count + 1; }

static clua_shared_string **bucket_of(clua_shared_string **buckets, size_t bucket_count, const char *end) {
    return &buckets[(size_t)(((uint64_t)(uintptr_t)end * 0x9E3779B97F4A7C15u) >> 32) & (bucket_count - 1)];
}

// Returns the link to the string that ends there, or the link where it belongs.
static clua_shared_string **find(const clua_shared_strings *table, const char *end) {
    clua_shared_string **link = bucket_of(table->buckets, table->bucket_count, end);
    while (*link != NULL && end_of((*link)->bytes, (*link)->count) != end) link = &(*link)->next;
    return link;
}

// Keeps the table as it is if memory runs out. Returns false if there is no table at all.
static bool grow(clua_shared_strings *table) {
    if (table->count < table->bucket_count) return true;
    size_t bucket_count = table->bucket_count == 0 ? 16 : 2 * table->bucket_count;
    clua_shared_string **buckets = calloc(bucket_count, sizeof *buckets);
    if (buckets == NULL) return table->bucket_count > 0;
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            clua_shared_string *string = table->buckets[i];
            table->buckets[i] = string->next;
            clua_shared_string **link = bucket_of(buckets, bucket_count, end_of(string->bytes, string->count));
            string->next = *link;
            *link = string;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
    return true;
}

// A string with one owner, or NULL.
static clua_shared_string *new_string(clua_shared_string contents) {
    clua_shared_string *string = malloc(sizeof *string);
    if (string == NULL) return NULL;
    *string = contents;
    atomic_init(&string->owners, 1);
    atomic_init(&string->counted, 0);
    return string;
}

clua_shared_string *clua_share_string(clua_state *state, const char *bytes, size_t count) {
    clua_shared_strings *table = &state->shared_strings;
    if (!grow(table)) return NULL;
    clua_shared_string **link = find(table, end_of(bytes, count)), *string = *link;
    if (string != NULL) {
        atomic_fetch_add(&string->owners, 1);
        return string;
    }
    string = new_string((clua_shared_string){.bytes = bytes, .count = count});
    if (string == NULL) return NULL;
    atomic_init(&string->owners, 2);
    *link = string;
    table->count++;
    return string;
}

clua_shared_string *clua_shared_string_copy(const char *bytes, size_t count) {
    char *block = malloc(count + 1);
    if (block == NULL) return NULL;
    memcpy(block, bytes, count);
    clua_shared_string *string = new_string((clua_shared_string){.bytes = block, .count = count, .block = block});
    if (string == NULL) free(block);
    return string;
}

clua_shared_string *clua_shared_string_of_object(const char *bytes, size_t count, atomic_bool *has_room, void *object) {
    clua_shared_string *string = new_string((clua_shared_string){.bytes = bytes, .count = count, .object = object, .has_room = has_room});
    if (string == NULL) clua_object_release(object);
    return string;
}

bool clua_note_lent_string(clua_state *state, clua_shared_string *string) {
    clua_shared_strings *table = &state->shared_strings;
    if (!grow(table)) return false;
    clua_shared_string **link = find(table, end_of(string->bytes, string->count));
    atomic_fetch_add(&string->owners, 1);
    string->next = *link;
    *link = string;
    table->count++;
    return true;
}

void clua_shared_string_release(clua_shared_string *string) {
    if (string == NULL || atomic_fetch_sub(&string->owners, 1) != 1) return;
    free(string->block);
    if (string->object != NULL) clua_object_release(string->object);
    free(string);
}

bool clua_hand_over_block(clua_state *state, void *block, size_t size) {
    clua_shared_strings *table = &state->shared_strings;
    if (table->count == 0) return false;
    clua_shared_string **link = find(table, (const char *)block + size), *string = *link;
    if (string == NULL) return false;
    *link = string->next;
    table->count--;
    // A lent block stays with its lender.
    if (string->has_room == NULL) string->block = block; else atomic_store(string->has_room, true);
    clua_shared_string_release(string);
    return true;
}

void clua_shared_strings_free(clua_state *state) {
    for (int i = 0; i < CLUA_LAST_CLASSES; i++) clua_shared_string_release(state->last_classes[i]);
    free(state->shared_strings.buckets);
    state->shared_strings = (clua_shared_strings){0};
}
