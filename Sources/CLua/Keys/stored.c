// Parcels of plain data that outlive the process.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "Keys/graph.h"
#include "Processes/message.h"
#include "key.h"

// stored := magic version checksum count-of-values bytes count-of-strings string*
// The bytes are those of a parcel without code and references. The checksum covers all bytes after it.
static const char magic[4] = "opv";
enum { STORED_VERSION = 1, HEADER_COUNT = sizeof magic + 1 + sizeof(uint64_t) };

// The reason why a value cannot be stored; NULL if it can.
static const char *refused(const graph *g, graph_value value) {
    if (value.kind == VALUE_NAMED) return "a part of a module";
    if (value.kind != VALUE_NODE) return NULL;
    switch (g->nodes[value.index].kind) {
    case NODE_TABLE: return g->nodes[value.index].is_frozen ? "a frozen value" : NULL;
    case NODE_FUNCTION: return "a function";
    case NODE_REFERENCE: return "an operation, a queue or another object of the host";
    case NODE_CLASS: return "a class";
    case NODE_ENVIRONMENT: return "a table of globals";
    case NODE_REBUILT: return "a value with __transfer";
    default: return "an upvalue";
    }
}

static const char *refused_in(const graph *g) {
    const char *found = NULL;
    for (size_t i = 0; i < g->root_count && found == NULL; i++) found = refused(g, g->roots[i]);
    for (size_t i = 0; i < g->value_count && found == NULL; i++) found = refused(g, g->values[i]);
    for (size_t i = 0; i < g->node_count && found == NULL; i++) found = refused(g, g->nodes[i].metatable);
    for (size_t i = 0; i < g->added_count && found == NULL; i++) found = refused(g, g->added[i].value);
    return found;
}

const char *clua_stored_write(const clua_parcel *parcel, uint8_t **bytes, size_t *count) {
    *bytes = NULL;
    *count = 0;
    graph g;
    clua_key_status status = graph_make(parcel, &g);
    if (status == CLUA_KEY_NO_MEMORY) return "";
    const char *found = status == CLUA_KEY_MADE ? refused_in(&g)
        : status == CLUA_KEY_UNSTABLE           ? "a frozen value with a function or an object"
                                                : "something that cannot be read";
    graph_free(&g);
    if (found != NULL) return found;

    parcel_writer writer;
    writer_init(&writer);
    uint8_t header[HEADER_COUNT] = {0};
    writer_bytes(&writer, header, sizeof header);
    writer_varint(&writer, parcel->value_count);
    writer_string(&writer, (const char *)clua_parcel_bytes(parcel), parcel->byte_count);
    size_t string_count = clua_parcel_string_count(parcel);
    writer_varint(&writer, string_count);
    for (size_t i = 0; i < string_count; i++) {
        const clua_shared_string *string = clua_parcel_string(parcel, i);
        writer_string(&writer, string->bytes, string->count);
    }
    uint8_t *result = writer.failed ? NULL : malloc(writer.count);
    if (result != NULL) {
        memcpy(result, writer.bytes, writer.count);
        uint64_t checksum = XXH3_64bits(result + HEADER_COUNT, writer.count - HEADER_COUNT);
        memcpy(result, magic, sizeof magic);
        result[sizeof magic] = STORED_VERSION;
        memcpy(result + sizeof magic + 1, &checksum, sizeof checksum);
        *bytes = result;
        *count = writer.count;
    }
    writer_free(&writer);
    return result == NULL ? "" : NULL;
}

static bool has_header(const uint8_t *bytes, size_t count) {
    if (count < HEADER_COUNT || memcmp(bytes, magic, sizeof magic) != 0 || bytes[sizeof magic] != STORED_VERSION) return false;
    uint64_t checksum;
    memcpy(&checksum, bytes + sizeof magic + 1, sizeof checksum);
    return checksum == XXH3_64bits(bytes + HEADER_COUNT, count - HEADER_COUNT);
}

// Gives the parcel copies of its long strings.
static bool read_strings(message_reader *reader, clua_parcel *parcel) {
    uint64_t count = message_count(reader, (uint64_t)(reader->end - reader->next) + 1);
    if (count == 0) return !reader->failed;
    clua_parcel_more *more = calloc(1, sizeof *more);
    if (more == NULL) return false;
    parcel->more = more;
    parcel->has_more = true;
    more->strings = calloc(count, sizeof(struct clua_shared_string *));
    if (more->strings == NULL) return false;
    for (; more->string_count < count; more->string_count++) {
        size_t size;
        const char *bytes = message_string(reader, &size);
        more->strings[more->string_count] = reader->failed ? NULL : clua_shared_string_copy(bytes, size);
        if (more->strings[more->string_count] == NULL) return false;
    }
    return true;
}

static bool read_parcel_bytes(message_reader *reader, clua_parcel *parcel) {
    uint64_t value_count = message_varint(reader);
    size_t count;
    const char *bytes = message_string(reader, &count);
    if (reader->failed || value_count > count) return false;  // each value takes at least one byte
    parcel->value_count = (uint32_t)value_count;
    parcel->byte_count = count;
    if (count > CLUA_FEW_BYTES) {
        uint8_t *block = malloc(count);
        if (block == NULL) return false;
        parcel->bytes = block;
        parcel->has_block = true;
    }
    if (count > 0) memcpy(parcel->has_block ? parcel->bytes : (uint8_t *)parcel->few, bytes, count);
    return true;
}

bool clua_stored_read(const uint8_t *bytes, size_t count, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    if (!has_header(bytes, count)) return false;
    message_reader reader = {bytes + HEADER_COUNT, bytes + count, false};
    graph g = {0};
    bool is_right = read_parcel_bytes(&reader, parcel) && read_strings(&reader, parcel) && reader.next == reader.end
        && graph_make(parcel, &g) == CLUA_KEY_MADE && refused_in(&g) == NULL;
    graph_free(&g);
    if (!is_right) clua_parcel_release(parcel);
    return is_right;
}
