#include <stdlib.h>
#include <string.h>

#include "Processes/message.h"
#include "wire.h"

// frozen := table*, in the order in which they are met; the first is the root
// table := count-of-elements value* count-of-pairs (key value)*
// value := tag [number | string | number-of-table | named | function]
// string, named, function := its number [contents, where it is met first]; named and function are numbered together
// contents of a string or a function := bytes; of a value that travels by name := module has-field [field]

// MARK: writing

typedef struct frozen_writer {
    parcel_writer bytes;
    pointer_map tables, strings, leaves;
    const clua_code_visitor *visitor;
    const char *refusal;
} frozen_writer;

// Writes the number that an address has in this map. Returns whether it is met first.
static bool write_number_of(frozen_writer *w, pointer_map *map, const void *address) {
    bool found;
    pointer_entry *entry = pointer_map_get(map, address, &found);
    if (entry == NULL) {
        w->bytes.failed = true;
        return false;
    }
    if (!found) entry->number = (uint32_t)map->count - 1;
    writer_varint(&w->bytes, entry->number);
    return !found;
}

static void write_frozen_string(frozen_writer *w, const frozen_string *string) {
    if (write_number_of(w, &w->strings, string)) writer_string(&w->bytes, string->bytes, string->count);
}

static void write_named(frozen_writer *w, const frozen_leaf *leaf) {
    if (!write_number_of(w, &w->leaves, leaf)) return;
    write_frozen_string(w, leaf->module);
    writer_byte(&w->bytes, leaf->field != NULL);
    if (leaf->field != NULL) write_frozen_string(w, leaf->field);
}

static void write_function(frozen_writer *w, const frozen_leaf *leaf) {
    if (!write_number_of(w, &w->leaves, leaf)) return;
    const clua_parcel *parcel = &leaf->parcel;
    if (clua_parcel_reference_count(parcel) + clua_parcel_string_count(parcel) + clua_parcel_frozen_count(parcel) > 0) {
        w->refusal = "a function in it whose globals are objects, frozen values or long strings";
        return;
    }
    uint8_t *bytes;
    size_t count;
    if (!clua_wire_write(parcel, w->visitor, &bytes, &count)) {
        w->bytes.failed = true;
        return;
    }
    writer_string(&w->bytes, (const char *)bytes, count);
    free(bytes);
}

static void write_frozen_value(frozen_writer *w, const frozen_value *value) {
    writer_byte(&w->bytes, (uint8_t)value->tag);
    switch (value->tag) {
    case FROZEN_NIL:
    case FROZEN_FALSE:
    case FROZEN_TRUE: break;
    case FROZEN_INTEGER: write_signed(&w->bytes, value->integer); break;
    case FROZEN_FLOAT: writer_bytes(&w->bytes, &value->number, sizeof value->number); break;
    case FROZEN_STRING: write_frozen_string(w, value->string); break;
    case FROZEN_TABLE: write_number_of(w, &w->tables, value->table); break;
    case FROZEN_NAMED: write_named(w, value->leaf); break;
    case FROZEN_FUNCTION: write_function(w, value->leaf); break;
    case FROZEN_OBJECT: w->refusal = "an operation or another object in it"; break;
    }
}

static void write_frozen_table(frozen_writer *w, const frozen_table *table) {
    writer_varint(&w->bytes, table->element_count);
    for (uint32_t i = 0; i < table->element_count && w->refusal == NULL; i++) write_frozen_value(w, &table->elements[i]);
    writer_varint(&w->bytes, table->pair_count);
    for (uint32_t i = 0; i < table->pair_count && w->refusal == NULL; i++) {
        // On another machine, two names may mean the same function.
        if (table->pairs[i].key.tag == FROZEN_NAMED) w->refusal = "a function or a module as a key";
        write_frozen_value(w, &table->pairs[i].key);
        write_frozen_value(w, &table->pairs[i].value);
    }
}

bool clua_wire_write_frozen(const struct frozen_table *table, const clua_code_visitor *visitor, uint8_t **bytes, size_t *count,
                            const char **refusal) {
    frozen_writer w = {.visitor = visitor};
    pointer_map *maps[] = {&w.tables, &w.strings, &w.leaves};
    writer_init(&w.bytes);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) pointer_map_init(maps[i]);
    bool found;
    if (pointer_map_get(&w.tables, table, &found) == NULL) w.bytes.failed = true;
    // Entries are in the order in which the tables were met.
    for (size_t i = 0; i < w.tables.count && w.refusal == NULL && !w.bytes.failed; i++) write_frozen_table(&w, w.tables.entries[i].key);
    *refusal = w.refusal;
    bool is_written = writer_take(&w.bytes, bytes, count);
    if (is_written && w.refusal != NULL) {
        free(*bytes);
        is_written = false;
    }
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) pointer_map_free(maps[i]);
    return is_written;
}

// MARK: reading

typedef struct met_list {
    void **items;
    size_t count, capacity;
} met_list;

// An error makes `bytes` a failed reader, which reads zeros, so reading ends soon.
typedef struct frozen_reader {
    message_reader bytes;
    clua_frozen *owner;
    const clua_code_visitor *visitor;
    met_list tables, strings, leaves;
} frozen_reader;

static void fail(frozen_reader *r) {
    r->bytes.next = r->bytes.end;
    r->bytes.failed = true;
}

static void *plain_memory(void *context, size_t size) {
    (void)context;
    return malloc(size);
}

static void *allocate(frozen_reader *r, size_t size) {
    void *memory = r->bytes.failed ? NULL : frozen_allocate(r->owner, size, plain_memory, NULL);
    if (memory == NULL) fail(r);
    return memory;
}

// The place of the item with this number. The place has NULL if the item is met first. Returns NULL if reading has failed.
static void **item_of(frozen_reader *r, met_list *list, uint64_t number) {
    if (r->bytes.failed) return NULL;
    if (number == list->count) {
        if (list->count == list->capacity) {
            size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
            void **items = realloc(list->items, capacity * sizeof *items);
            if (items == NULL) {
                fail(r);
                return NULL;
            }
            list->items = items;
            list->capacity = capacity;
        }
        list->items[list->count++] = NULL;
    }
    return &list->items[number];
}

static void **read_item(frozen_reader *r, met_list *list) { return item_of(r, list, message_count(&r->bytes, list->count + 1)); }

static const frozen_string *read_frozen_string(frozen_reader *r) {
    void **item = read_item(r, &r->strings);
    if (item == NULL || *item != NULL) return item == NULL ? NULL : *item;
    size_t count;
    const char *bytes = message_string(&r->bytes, &count);
    frozen_string *string = allocate(r, sizeof *string + count + 1);
    if (string == NULL) return NULL;
    *string = (frozen_string){.count = count, .hash = frozen_hash(bytes, count), .bytes = (const char *)(string + 1)};
    memcpy(string + 1, bytes, count);
    ((char *)(string + 1))[count] = 0;
    return *item = string;
}

// The table at a place in the list, which gets its contents later.
static const frozen_table *table_at(frozen_reader *r, void **item) {
    if (item == NULL || *item != NULL) return item == NULL ? NULL : *item;
    frozen_table *table = allocate(r, sizeof *table);
    if (table == NULL) return NULL;
    *table = (frozen_table){.owner = r->owner};
    return *item = table;
}

// The leaf at a place in the list. A leaf of another kind than `tag` is an error.
static frozen_leaf *known_leaf(frozen_reader *r, frozen_leaf *leaf, frozen_tag tag) {
    if ((leaf->module != NULL) != (tag == FROZEN_NAMED)) fail(r);
    return leaf;
}

static frozen_leaf *make_leaf(frozen_reader *r) {
    frozen_leaf *leaf = allocate(r, sizeof *leaf);
    if (leaf != NULL) *leaf = (frozen_leaf){0};
    return leaf;
}

static frozen_leaf *read_named(frozen_reader *r) {
    void **item = read_item(r, &r->leaves);
    if (item == NULL || *item != NULL) return item == NULL ? NULL : known_leaf(r, *item, FROZEN_NAMED);
    frozen_leaf *leaf = make_leaf(r);
    if (leaf == NULL) return NULL;
    leaf->module = read_frozen_string(r);
    if (message_byte(&r->bytes) != 0) leaf->field = read_frozen_string(r);
    return *item = leaf;
}

static frozen_leaf *read_function(frozen_reader *r) {
    void **item = read_item(r, &r->leaves);
    if (item == NULL || *item != NULL) return item == NULL ? NULL : known_leaf(r, *item, FROZEN_FUNCTION);
    size_t count;
    const char *bytes = message_string(&r->bytes, &count);
    frozen_leaf *leaf = make_leaf(r);
    if (leaf == NULL) return NULL;
    bool is_read = clua_wire_read((const uint8_t *)bytes, count, NULL, 0, NULL, 0, NULL, 0, r->visitor, &leaf->parcel);
    if (!is_read || leaf->parcel.value_count != 1) fail(r);
    r->owner->size += clua_parcel_size(&leaf->parcel);
    return *item = leaf;
}

static frozen_value read_frozen_value(frozen_reader *r) {
    frozen_value value = {.tag = (frozen_tag)message_count(&r->bytes, FROZEN_NIL + 1)};
    switch (value.tag) {
    case FROZEN_NIL:
    case FROZEN_FALSE:
    case FROZEN_TRUE: break;
    case FROZEN_INTEGER: value.integer = message_signed(&r->bytes); break;
    case FROZEN_FLOAT: {
        const uint8_t *bytes = message_bytes(&r->bytes, sizeof value.number);
        if (bytes != NULL) memcpy(&value.number, bytes, sizeof value.number);
        break;
    }
    case FROZEN_STRING: value.string = read_frozen_string(r); break;
    case FROZEN_TABLE: value.table = table_at(r, read_item(r, &r->tables)); break;
    case FROZEN_NAMED: value.leaf = read_named(r); break;
    case FROZEN_FUNCTION: value.leaf = read_function(r); break;
    case FROZEN_OBJECT: fail(r);
    }
    return value;
}

// Memory for the announced number of items. Each takes at least `least` bytes in the message. NULL if the number is 0.
static void *read_list(frozen_reader *r, uint32_t *count, size_t least, size_t size) {
    size_t most = (size_t)(r->bytes.end - r->bytes.next) / least;
    if (most > UINT32_MAX / 4) most = UINT32_MAX / 4;
    *count = (uint32_t)message_count(&r->bytes, most + 1);
    return *count == 0 ? NULL : allocate(r, *count * size);
}

// Whether a table could have the key besides its elements. With any other key, iterating would not end.
static bool may_be_key(const frozen_table *table, const frozen_value *key) {
    lua_Integer integer;
    switch (key->tag) {
    case FROZEN_INTEGER: return (lua_Unsigned)key->integer - 1u >= table->element_count;
    case FROZEN_FLOAT: return key->number == key->number && !(lua_numbertointeger(key->number, &integer) && (lua_Number)integer == key->number);
    case FROZEN_OBJECT:
    case FROZEN_NAMED:
    case FROZEN_FUNCTION:
    case FROZEN_NIL: return false;
    default: return true;
    }
}

static void read_frozen_table(frozen_reader *r, frozen_table *table) {
    uint32_t element_count, pair_count;
    frozen_value *elements = read_list(r, &element_count, 1, sizeof *elements);
    for (uint32_t i = 0; i < element_count && !r->bytes.failed; i++) elements[i] = read_frozen_value(r);
    frozen_pair *pairs = read_list(r, &pair_count, 2, sizeof *pairs);
    for (uint32_t i = 0; i < pair_count && !r->bytes.failed; i++) {
        pairs[i].key = read_frozen_value(r);
        pairs[i].value = read_frozen_value(r);
        if (pairs[i].value.tag == FROZEN_NIL) fail(r);
    }
    if (r->bytes.failed) return;
    table->elements = elements;
    table->element_count = element_count;
    table->pairs = pairs;
    table->pair_count = pair_count;
    for (uint32_t i = 0; i < pair_count; i++)
        if (!may_be_key(table, &pairs[i].key)) return fail(r);
    if (pair_count == 0) return;
    uint32_t size = frozen_index_size(pair_count), *index = allocate(r, size * sizeof *index);
    if (index != NULL && !frozen_make_index(table, index, size)) fail(r);
}

const struct frozen_table *clua_wire_read_frozen(const uint8_t *bytes, size_t count, const clua_code_visitor *visitor) {
    clua_make_frozen_secret();
    clua_frozen *owner = calloc(1, sizeof *owner);
    if (owner == NULL) return NULL;
    atomic_init(&owner->references, 1);
    frozen_reader r = {.bytes = {bytes, bytes + count, false}, .owner = owner, .visitor = visitor};
    const frozen_table *root = table_at(&r, item_of(&r, &r.tables, 0));
    for (size_t i = 0; i < r.tables.count && !r.bytes.failed; i++) read_frozen_table(&r, r.tables.items[i]);
    if (r.bytes.next != r.bytes.end) fail(&r);
    owner->leaves = (frozen_leaf **)r.leaves.items;
    owner->leaf_count = r.leaves.count;
    // Reading may have failed before the last leaf was made.
    if (owner->leaf_count > 0 && owner->leaves[owner->leaf_count - 1] == NULL) owner->leaf_count--;
    free(r.tables.items);
    free(r.strings.items);
    if (!r.bytes.failed) return root;
    clua_frozen_destroy(owner);
    return NULL;
}

void clua_wire_retain_frozen(const struct frozen_table *table) { clua_frozen_retain(table); }

void clua_wire_release_frozen(const struct frozen_table *table) { clua_frozen_release(table); }

bool clua_wire_frozen_is_shared(const struct frozen_table *table) { return atomic_load(&table->owner->references) > 1; }
