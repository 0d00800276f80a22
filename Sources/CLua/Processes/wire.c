#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "Core/Core.h"
#include "Processes/message.h"
#include "Transfer/Transfer.h"
#include "object.h"

// wire := count-of-values bytes count-of-codes (dump label)*

bool clua_wire_write(const clua_parcel *parcel, const clua_code_visitor *visitor, uint8_t **bytes, size_t *count) {
    parcel_writer writer;
    writer_init(&writer);
    writer_varint(&writer, parcel->value_count);
    writer_string(&writer, (const char *)clua_parcel_bytes(parcel), parcel->byte_count);
    size_t code_count = clua_parcel_code_count(parcel);
    writer_varint(&writer, code_count);
    for (size_t i = 0; i < code_count; i++) {
        struct clua_code *code = clua_parcel_code(parcel, i);
        if (visitor != NULL && !visitor->visit(visitor->context, code)) writer.failed = true;
        writer_string(&writer, (const char *)code->dump, code->dump_count);
        writer_string(&writer, code->label, strlen(code->label));
    }
    return writer_take(&writer, bytes, count);
}

bool clua_wire_has_parameters(const clua_parcel *parcel) {
    return clua_parcel_code_count(parcel) == 0 || clua_parcel_code(parcel, 0)->has_parameters;
}

const char *clua_wire_place(const clua_parcel *parcel) {
    return clua_parcel_code_count(parcel) == 0 ? NULL : clua_parcel_code(parcel, 0)->label;
}

// Copies a list whose elements the copy takes over. An empty one is NULL. False if memory has run out.
static bool copy_list(void *list, const void *elements, size_t count, size_t size) {
    void *copy = count == 0 ? NULL : malloc(count * size);
    if (count > 0 && copy == NULL) return false;
    if (count > 0) memcpy(copy, elements, count * size);
    *(void **)list = copy;
    return true;
}

static void release_parts(struct clua_shared_string *const *strings, size_t string_count, const clua_reference *references,
                          size_t reference_count, const struct frozen_table *const *frozen, size_t frozen_count) {
    for (size_t i = 0; i < string_count; i++) clua_shared_string_release(strings[i]);
    for (size_t i = 0; i < reference_count; i++)
        if (!references[i].is_unowned) clua_object_release(references[i].object);
    for (size_t i = 0; i < frozen_count; i++) clua_frozen_release(frozen[i]);
}

static bool read_codes(message_reader *reader, const clua_code_visitor *visitor, clua_parcel_more *more) {
    size_t count = (size_t)message_count(reader, (uint64_t)(reader->end - reader->next) + 1);
    if (count == 0) return !reader->failed;
    more->codes = calloc(count, sizeof *more->codes);
    if (more->codes == NULL) return false;
    for (; more->code_count < count; more->code_count++) {
        size_t dump_count, label_count;
        const char *dump = message_string(reader, &dump_count), *label = message_string(reader, &label_count);
        struct clua_code *code = reader->failed ? NULL : clua_code_from(dump, dump_count, label, label_count);
        if (code == NULL) return false;
        more->codes[more->code_count] = code;
        if (visitor != NULL && !visitor->visit(visitor->context, code)) {
            more->code_count++;
            return false;
        }
    }
    return true;
}

bool clua_wire_read(const uint8_t *bytes, size_t count, struct clua_shared_string *const *strings, size_t string_count,
                    const clua_reference *references, size_t reference_count, const struct frozen_table *const *frozen, size_t frozen_count,
                    const clua_code_visitor *visitor, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    message_reader reader = {bytes, bytes + count, false};
    uint64_t value_count = message_count(&reader, MAX_VALUES + 1);
    size_t byte_count;
    const char *values = message_string(&reader, &byte_count);
    clua_parcel_more *more = reader.failed || value_count > byte_count ? NULL : calloc(1, sizeof *more);
    bool has_lists = more != NULL && copy_list(&more->strings, strings, string_count, sizeof *strings)
        && copy_list(&more->references, references, reference_count, sizeof *references)
        && copy_list((void *)&more->frozen, frozen, frozen_count, sizeof *frozen);
    if (!has_lists || !parcel_assemble(parcel, values, byte_count, more)) {
        if (more != NULL) {
            free(more->strings);
            free(more->references);
            free(more->frozen);
        }
        free(more);
        release_parts(strings, string_count, references, reference_count, frozen, frozen_count);
        return false;
    }
    if (byte_count > 0) {
        uint8_t *flags = (uint8_t *)clua_parcel_bytes(parcel);
        *flags = visitor != NULL ? *flags | CLUA_FROM_PROCESS : *flags & ~CLUA_FROM_PROCESS;
    }
    // The parcel is not marked as flat, even if it was: wrong bytes in a flat parcel could do harm.
    parcel->value_count = (uint32_t)value_count;
    more->string_count = (uint32_t)string_count;
    more->reference_count = (uint32_t)reference_count;
    more->frozen_count = (uint32_t)frozen_count;
    if (!read_codes(&reader, visitor, more) || reader.next != reader.end) {
        clua_parcel_release(parcel);
        *parcel = (clua_parcel){0};
        return false;
    }
    parcel_simplify(parcel);
    return true;
}

const char *clua_wire_string(const struct clua_shared_string *string, size_t *count) {
    *count = string->count;
    return string->bytes;
}

void clua_wire_retain(struct clua_shared_string *string) { atomic_fetch_add(&string->owners, 1); }

void clua_wire_release(struct clua_shared_string *string) { clua_shared_string_release(string); }

struct clua_shared_string *clua_wire_copy(const char *bytes, size_t count) { return clua_shared_string_copy(bytes, count); }

struct clua_shared_string *clua_wire_string_of_object(const char *bytes, size_t count, void *has_room, void *object) {
    return clua_shared_string_of_object(bytes, count, has_room, object);
}
