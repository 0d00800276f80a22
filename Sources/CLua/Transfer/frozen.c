// The memory of frozen values, and finding keys in them. Nothing here calls Lua.
#include "Transfer/frozen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ledger.h"

// MARK: lifetime

void clua_frozen_retain(const frozen_table *table) { atomic_fetch_add_explicit(&table->owner->references, 1, memory_order_relaxed); }

void clua_frozen_charge(clua_frozen *owner, clua_ledger *ledger) {
    clua_ledger *none = NULL;
    if (ledger == NULL || !atomic_compare_exchange_strong(&owner->ledger, &none, ledger)) return;
    clua_ledger_retain(ledger);
    clua_ledger_add(ledger, owner->size);
}

static bool is_last_reference(clua_frozen *owner) {
    return atomic_fetch_sub_explicit(&owner->references, 1, memory_order_acq_rel) == 1;
}

void clua_frozen_destroy(clua_frozen *owner) {
    // A list instead of recursion, because chains may have any length.
    owner->next = NULL;
    while (owner != NULL) {
        clua_frozen *others = owner->next;
        clua_ledger *ledger = atomic_load(&owner->ledger);
        clua_ledger_subtract(ledger, owner->size);
        clua_ledger_release(ledger);
        for (size_t i = 0; i < owner->leaf_count; i++) clua_parcel_release(&owner->leaves[i]->parcel);
        for (size_t i = 0; i < owner->string_count; i++) clua_shared_string_release(owner->strings[i]);
        for (size_t i = 0; i < owner->nested_count; i++) {
            clua_frozen *nested = owner->nested[i]->owner;
            if (!is_last_reference(nested)) continue;
            nested->next = others;
            others = nested;
        }
        for (frozen_block *block = owner->blocks, *next; block != NULL; block = next) {
            next = block->next;
            free(block);
        }
        free(owner->leaves);
        free(owner->strings);
        free(owner->nested);
        free(owner);
        owner = others;
    }
}

void clua_frozen_release(const frozen_table *table) {
    clua_frozen *owner = table->owner;
    if (is_last_reference(owner)) clua_frozen_destroy(owner);
}

// MARK: making

enum { FIRST_BLOCK = 128, LARGEST_BLOCK = 1 << 16 };

void *frozen_allocate(clua_frozen *owner, size_t size, void *(*more)(void *context, size_t size), void *context) {
    size = (size + 15) & ~(size_t)15;
    frozen_block *block = owner->blocks;
    if (block == NULL || block->size - block->used < size) {
        size_t room = 2 * owner->size;
        if (room < FIRST_BLOCK) room = FIRST_BLOCK;
        if (room > LARGEST_BLOCK) room = LARGEST_BLOCK;
        bool has_own = size > room / 4;  // then the rest of the current block remains in use
        if (has_own) room = size;
        frozen_block *made = more(context, sizeof *made + room);
        if (made == NULL) return NULL;
        *made = (frozen_block){.size = room};
        owner->size += sizeof *made + room;
        if (has_own && block != NULL) {
            made->next = block->next;
            block->next = made;
        } else {
            made->next = block;
            owner->blocks = made;
        }
        block = made;
    }
    void *result = block->bytes + block->used;
    block->used += size;
    return result;
}

// MARK: hashing

uint64_t clua_frozen_secret;

static void make_secret(void) {
    uint64_t secret;
    // Without random numbers, at least the address is random.
    if (getrandom(&secret, sizeof secret, 0) != sizeof secret) secret = (uint64_t)(uintptr_t)&secret * UINT64_C(0x9e3779b97f4a7c15);
    clua_frozen_secret = secret | 1;
}

void clua_make_frozen_secret(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_secret);
}

// Uses all bits of the product. So without the secret, no script can compute which changes of a value cancel each other.
static inline uint64_t mix(uint64_t value) {
    __extension__ typedef unsigned __int128 product;
    product result = (product)value * clua_frozen_secret;
    return (uint64_t)result ^ (uint64_t)(result >> 64);
}

// Choosing numbers with equal hashes requires the secret.
static uint32_t hash_number(uint64_t number) { return (uint32_t)mix(mix(number ^ clua_frozen_secret) ^ clua_frozen_secret >> 17); }

// One to seven bytes as a number. Different bytes of the same count are different numbers.
static inline uint64_t last_bytes(const char *bytes, size_t count) {
    if (count < 4) return (uint8_t)bytes[0] | (uint64_t)(uint8_t)bytes[count / 2] << 8 | (uint64_t)(uint8_t)bytes[count - 1] << 16;
    uint32_t first, last;
    memcpy(&first, bytes, sizeof first);
    memcpy(&last, bytes + count - sizeof last, sizeof last);
    return first | (uint64_t)last << 32;
}

uint32_t frozen_hash(const char *bytes, size_t count) {
    uint64_t hash = clua_frozen_secret ^ count;
    size_t left = count;
    for (; left >= 8; left -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        hash = mix(hash ^ word);
    }
    if (left > 0) hash = mix(hash ^ last_bytes(bytes, left));
    return (uint32_t)mix(hash);
}

uint32_t frozen_key_hash(const frozen_value *key) {
    switch (key->tag) {
    case FROZEN_STRING: return key->string->hash;
    case FROZEN_OBJECT: return hash_number((uint64_t)(uintptr_t)key->leaf->identity);
    case FROZEN_NAMED: return key->leaf->module->hash ^ (key->leaf->field != NULL ? key->leaf->field->hash : 0);
    case FROZEN_FALSE:
    case FROZEN_TRUE: return (uint32_t)mix(key->tag);
    default: return hash_number((uint64_t)key->integer);  // any member of the union
    }
}

// MARK: finding

static bool has_text(const frozen_string *string, const char *bytes, size_t count) {
    return string->count == count && memcmp(string->bytes, bytes, count) == 0;
}

static bool are_same_text(const frozen_string *a, const frozen_string *b) {
    if (a == NULL || b == NULL) return a == b;
    return has_text(a, b->bytes, b->count);
}

static bool are_equal(const frozen_value *a, const frozen_value *b) {
    if (a->tag != b->tag) return false;
    switch (a->tag) {
    case FROZEN_FALSE:
    case FROZEN_TRUE: return true;
    case FROZEN_FLOAT: return a->number == b->number;
    case FROZEN_STRING: return are_same_text(a->string, b->string);
    case FROZEN_OBJECT: return a->leaf->identity == b->leaf->identity;
    case FROZEN_NAMED: return are_same_text(a->leaf->module, b->leaf->module) && are_same_text(a->leaf->field, b->leaf->field);
    default: return a->integer == b->integer;
    }
}

uint32_t frozen_index_size(uint32_t pair_count) {
    uint32_t size = 2;
    while (size < 2 * pair_count) size *= 2;
    return size;
}

bool frozen_make_index(frozen_table *table, uint32_t *index, uint32_t size) {
    memset(index, 0, size * sizeof *index);
    for (uint32_t i = 0; i < table->pair_count; i++) {
        uint32_t slot = frozen_key_hash(&table->pairs[i].key) & (size - 1);
        for (; index[slot] != 0; slot = (slot + 1) & (size - 1))
            if (are_equal(&table->pairs[index[slot] - 1].key, &table->pairs[i].key)) return false;
        index[slot] = i + 1;
    }
    table->index = index;
    table->index_mask = size - 1;
    return true;
}

const frozen_value *frozen_find_string(const frozen_table *table, const char *bytes, size_t count) {
    if (table->pair_count == 0) return NULL;
    uint32_t hash = frozen_hash(bytes, count), number;
    for (uint32_t slot = hash & table->index_mask; (number = table->index[slot]) != 0; slot = (slot + 1) & table->index_mask) {
        const frozen_pair *pair = &table->pairs[number - 1];
        if (pair->key.tag == FROZEN_STRING && pair->key.string->hash == hash && has_text(pair->key.string, bytes, count)) return &pair->value;
    }
    return NULL;
}

const frozen_value *frozen_find(const frozen_table *table, const frozen_value *key) {
    if (table->pair_count == 0) return NULL;
    uint32_t number;
    for (uint32_t slot = frozen_key_hash(key) & table->index_mask; (number = table->index[slot]) != 0; slot = (slot + 1) & table->index_mask)
        if (are_equal(&table->pairs[number - 1].key, key)) return &table->pairs[number - 1].value;
    return NULL;
}
