#include "Processes/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

// A larger message is a defect, or an attack that is to use up the host's memory.
#define MAX_MESSAGE ((uint64_t)1 << 32)
// Input buffers larger than this are freed after use.
#define MAX_KEPT_INPUT ((size_t)1 << 20)
// The number of codes after which each side forgets those that it has sent.
#define MAX_CODES 4096

// The same for the bytes of all codes but the last.
#define MAX_CODE_BYTES ((size_t)8 << 20)

// MARK: reading

static void fail(message_reader *reader) {
    reader->failed = true;
    reader->next = reader->end;
}

uint8_t message_byte(message_reader *reader) {
    if (reader->next == reader->end) {
        fail(reader);
        return 0;
    }
    return *reader->next++;
}

uint64_t message_varint(message_reader *reader) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = message_byte(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    fail(reader);
    return 0;
}

int64_t message_signed(message_reader *reader) {
    uint64_t value = message_varint(reader);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

uint64_t message_count(message_reader *reader, uint64_t limit) {
    uint64_t value = message_varint(reader);
    if (value < limit) return value;
    fail(reader);
    return 0;
}

const uint8_t *message_bytes(message_reader *reader, size_t count) {
    if ((size_t)(reader->end - reader->next) < count) {
        fail(reader);
        return NULL;
    }
    const uint8_t *bytes = reader->next;
    reader->next += count;
    return bytes;
}

const char *message_string(message_reader *reader, size_t *count) {
    uint64_t announced = message_varint(reader);
    const uint8_t *bytes = announced < MAX_MESSAGE ? message_bytes(reader, (size_t)announced) : NULL;
    *count = bytes != NULL ? (size_t)announced : 0;
    if (bytes == NULL) fail(reader);
    return bytes != NULL ? (const char *)bytes : "";
}

// MARK: the channel

typedef struct header {
    uint64_t size;  // of the bytes that follow
    uint32_t kind;
    uint32_t unused;
} header;

void channel_init(channel *channel, int socket) {
    *channel = (struct channel){.socket = socket};
    pointer_map_init(&channel->sent_codes);
}

static void forget_sent_codes(channel *channel) {
    for (size_t i = 0; i < channel->sent_codes.count; i++) clua_code_release((struct clua_code *)channel->sent_codes.entries[i].key);
    pointer_map_free(&channel->sent_codes);
    pointer_map_init(&channel->sent_codes);
    channel->sent_code_bytes = 0;
}

static void forget_codes(channel *channel) {
    for (size_t i = 0; i < channel->code_count; i++) clua_code_release(channel->codes[i]);
    channel->code_count = channel->code_bytes = 0;
}

void channel_close(channel *channel) {
    forget_sent_codes(channel);
    pointer_map_free(&channel->sent_codes);
    forget_codes(channel);
    free(channel->codes);
    free(channel->input);
    close(channel->socket);
}

bool channel_send(channel *channel, message_kind kind, const parcel_writer *writer) {
    if (writer->failed) return false;
    header header = {.size = writer->count, .kind = kind};
    struct iovec pieces[2] = {{&header, sizeof header}, {writer->bytes, writer->count}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    while (message.msg_iovlen > 0) {
        ssize_t sent = sendmsg(channel->socket, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            channel->is_late = errno == EAGAIN;
            return false;
        }
        for (size_t left = (size_t)sent; message.msg_iovlen > 0;) {
            struct iovec *piece = message.msg_iov;
            if (left < piece->iov_len) {
                piece->iov_base = (char *)piece->iov_base + left;
                piece->iov_len -= left;
                break;
            }
            left -= piece->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
    }
    return true;
}

void channel_try_send(channel *channel, message_kind kind) {
    header header = {.kind = kind};
    send(channel->socket, &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void channel_limit_waiting(channel *channel, int milliseconds) {
    struct timeval most = {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    setsockopt(channel->socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(channel->socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

// Makes room for more of `count` bytes: for all of them if they are few. For many bytes, the room grows only as the peer sends them.
static bool grow(channel *channel, size_t count) {
    size_t capacity = 2 * channel->capacity > MAX_KEPT_INPUT ? 2 * channel->capacity : MAX_KEPT_INPUT;
    if (capacity > count) capacity = count < 4096 ? 4096 : count;
    uint8_t *input = realloc(channel->input, capacity);
    if (input == NULL) return false;
    channel->input = input;
    channel->capacity = capacity;
    return true;
}

// Receives until the input has `count` bytes from `start` on.
static bool fill(channel *channel, size_t count) {
    if (channel->capacity - channel->start < count && channel->start > 0) {
        memmove(channel->input, channel->input + channel->start, channel->end - channel->start);
        channel->end -= channel->start;
        channel->start = 0;
    }
    while (channel->end - channel->start < count) {
        if (channel->end == channel->capacity && !grow(channel, count)) return false;
        ssize_t received = recv(channel->socket, channel->input + channel->end, channel->capacity - channel->end, 0);
        if (received == 0) return false;
        if (received < 0) {
            if (errno == EINTR) continue;
            channel->is_late = errno == EAGAIN;
            return false;
        }
        channel->end += (size_t)received;
    }
    return true;
}

bool channel_receive(channel *channel, message_kind *kind, message_reader *reader) {
    channel->start += channel->taken;
    channel->taken = 0;
    if (channel->start == channel->end) {
        channel->start = channel->end = 0;
        if (channel->capacity > MAX_KEPT_INPUT) {
            free(channel->input);
            channel->input = NULL;
            channel->capacity = 0;
        }
    }
    header header;
    if (!fill(channel, sizeof header)) return false;
    memcpy(&header, channel->input + channel->start, sizeof header);
    if (header.size >= MAX_MESSAGE || !fill(channel, sizeof header + (size_t)header.size)) return false;
    channel->taken = sizeof header + (size_t)header.size;
    *kind = header.kind;
    const uint8_t *bytes = channel->input + channel->start + sizeof header;
    *reader = (message_reader){bytes, bytes + header.size, false};
    return true;
}

// MARK: parcels

// The number before a code: the code is new; it is new, and earlier codes are forgotten; or the code's own number plus CODE_KNOWN.
enum { CODE_NEW, CODE_NEW_AFTER_ALL, CODE_KNOWN };

static void write_code(channel *channel, parcel_writer *writer, struct clua_code *code) {
    bool is_full = channel->sent_codes.count == MAX_CODES || channel->sent_code_bytes > MAX_CODE_BYTES, found;
    if (is_full) forget_sent_codes(channel);
    pointer_entry *entry = pointer_map_get(&channel->sent_codes, code, &found);
    if (entry == NULL) {
        writer->failed = true;
        return;
    }
    if (found) return writer_varint(writer, CODE_KNOWN + (uint64_t)entry->number);
    entry->number = (uint32_t)channel->sent_codes.count - 1;
    clua_code_retain(code);
    channel->sent_code_bytes += code->dump_count;
    writer_varint(writer, is_full ? CODE_NEW_AFTER_ALL : CODE_NEW);
    writer_string(writer, (const char *)code->dump, code->dump_count);
    writer_string(writer, code->label, strlen(code->label));
}

// Returns a code with a reference for the caller, or NULL.
static struct clua_code *read_code(channel *channel, message_reader *reader) {
    uint64_t number = message_varint(reader);
    if (number >= CODE_KNOWN) {
        number -= CODE_KNOWN;
        if (number >= channel->code_count) return NULL;
        clua_code_retain(channel->codes[number]);
        return channel->codes[number];
    }
    if (number == CODE_NEW_AFTER_ALL) forget_codes(channel);
    size_t dump_count, label_count;
    const char *dump = message_string(reader, &dump_count), *label = message_string(reader, &label_count);
    if (reader->failed || channel->code_count == MAX_CODES || channel->code_bytes > MAX_CODE_BYTES) return NULL;
    if (channel->code_count == channel->code_capacity) {
        size_t capacity = channel->code_capacity == 0 ? 16 : 2 * channel->code_capacity;
        struct clua_code **codes = realloc(channel->codes, capacity * sizeof *codes);
        if (codes == NULL) return NULL;
        channel->codes = codes;
        channel->code_capacity = capacity;
    }
    struct clua_code *code = clua_code_from(dump, dump_count, label, label_count);
    if (code == NULL) return NULL;
    clua_code_retain(code);
    channel->codes[channel->code_count++] = code;
    channel->code_bytes += dump_count;
    return code;
}

void write_parcel(channel *channel, parcel_writer *writer, const clua_parcel *parcel) {
    writer_varint(writer, parcel->value_count);
    writer_byte(writer, parcel->is_flat);
    writer_string(writer, (const char *)clua_parcel_bytes(parcel), parcel->byte_count);
    size_t string_count = clua_parcel_string_count(parcel), code_count = clua_parcel_code_count(parcel);
    size_t reference_count = clua_parcel_reference_count(parcel);
    // States that talk to processes freeze nothing.
    if (clua_parcel_frozen_count(parcel) > 0) writer->failed = true;
    writer_varint(writer, string_count);
    for (size_t i = 0; i < string_count; i++) {
        const clua_shared_string *string = clua_parcel_string(parcel, i);
        writer_string(writer, string->bytes, string->count);
    }
    writer_varint(writer, code_count);
    for (size_t i = 0; i < code_count; i++) write_code(channel, writer, clua_parcel_code(parcel, i));
    writer_varint(writer, reference_count);
    for (size_t i = 0; i < reference_count; i++)
        if (!channel->write_reference(channel, writer, clua_parcel_reference(parcel, i))) writer->failed = true;
}

// Reads `count` items of the lists of a parcel. Each takes at least one byte, so a count that the message cannot hold is refused.
static void *list_of(message_reader *reader, uint64_t *count, size_t size) {
    *count = message_count(reader, (uint64_t)(reader->end - reader->next) + 1);
    if (*count == 0) return NULL;
    void *list = calloc(*count, size);
    if (list == NULL) {
        fail(reader);
        *count = 0;
    }
    return list;
}

static void read_lists(channel *channel, message_reader *reader, clua_parcel_more *more) {
    uint64_t count;
    more->strings = list_of(reader, &count, sizeof *more->strings);
    for (; more->string_count < count && !reader->failed; more->string_count++) {
        size_t size;
        const char *bytes = message_string(reader, &size);
        more->strings[more->string_count] = clua_shared_string_copy(bytes, size);
        if (more->strings[more->string_count] == NULL) fail(reader);
    }
    more->codes = list_of(reader, &count, sizeof *more->codes);
    for (; more->code_count < count && !reader->failed; more->code_count++) {
        more->codes[more->code_count] = read_code(channel, reader);
        if (more->codes[more->code_count] == NULL) fail(reader);
    }
    more->references = list_of(reader, &count, sizeof *more->references);
    for (; more->reference_count < count && !reader->failed; more->reference_count++)
        if (!channel->read_reference(channel, reader, &more->references[more->reference_count])) {
            fail(reader);
            break;
        }
}

bool parcel_assemble(clua_parcel *parcel, const char *bytes, size_t count, clua_parcel_more *more) {
    uint8_t *block = count > CLUA_FEW_BYTES ? malloc(count) : NULL;
    if (count > CLUA_FEW_BYTES && block == NULL) return false;
    if (count > 0) memcpy(block != NULL ? block : (uint8_t *)parcel->few, bytes, count);
    if (block != NULL) parcel->bytes = block;
    parcel->byte_count = count;
    parcel->has_block = block != NULL;
    parcel->more = more;
    parcel->has_more = true;
    return true;
}

void parcel_simplify(clua_parcel *parcel) {
    clua_parcel_more *more = parcel->more;
    if (more->reference_count > 0 || more->string_count > 0 || more->frozen_count > 0 || more->code_count > 1) return;
    parcel->code = more->code_count == 1 ? more->codes[0] : NULL;
    parcel->has_more = false;
    free(more->references);
    free(more->strings);
    free(more->codes);
    free(more);
}

bool read_parcel(channel *channel, message_reader *reader, clua_parcel *parcel) {
    *parcel = (clua_parcel){0};
    parcel->value_count = (uint32_t)message_count(reader, MAX_VALUES + 1);
    bool is_flat = message_byte(reader) != 0;
    size_t count;
    const char *bytes = message_string(reader, &count);
    if (parcel->value_count > count) fail(reader);  // each value takes at least one byte
    clua_parcel_more *more = reader->failed ? NULL : calloc(1, sizeof *more);
    if (more == NULL || !parcel_assemble(parcel, bytes, count, more)) {
        fail(reader);
        free(more);
        *parcel = (clua_parcel){0};
        return false;
    }
    if (count > 0) {
        uint8_t *flags = (uint8_t *)clua_parcel_bytes(parcel);
        *flags = channel->trusts_peer ? *flags & ~CLUA_FROM_PROCESS : *flags | CLUA_FROM_PROCESS;
    }
    // Wrong bytes in a flat parcel could do harm, so only a trusted peer may send one.
    parcel->is_flat = is_flat && channel->trusts_peer;
    read_lists(channel, reader, more);
    if (reader->failed) {
        clua_parcel_release(parcel);
        return false;
    }
    parcel_simplify(parcel);
    return true;
}
