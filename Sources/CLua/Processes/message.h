// Messages between the host and a worker process. Nothing here raises.
//
// The two take turns. The host sends a task. The worker process sends requests, and the host answers each. At last the process sends an
// outcome. While it waits for an answer, it may get another task, and then sends the outcome of this task first. Printed output needs no answer.
//
// task := SETUP | REGISTER | PATHS | PRELUDE | RUN | CALL | END
// from the worker process: releases (REQUEST … | OUTPUT … | OUTCOME …), where `releases` are the numbers of objects that the process has dropped
#ifndef CLUA_MESSAGE_H
#define CLUA_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "Transfer/Transfer.h"
#include "parcel.h"

typedef enum message_kind {
    MESSAGE_SETUP = 1,
    MESSAGE_REGISTER,
    MESSAGE_SETTINGS,
    MESSAGE_PRELUDE,
    MESSAGE_RUN,
    MESSAGE_CALL,
    MESSAGE_END,
    MESSAGE_ANSWER,
    MESSAGE_REQUEST,
    MESSAGE_OUTPUT,
    MESSAGE_OUTCOME
} message_kind;

/// The requests of MESSAGE_REQUEST.
typedef enum request_kind {
    REQUEST_CALL,           // of a class: a function, by number
    REQUEST_GET,
    REQUEST_SET,
    REQUEST_CLASS_GET,
    REQUEST_DESCRIBE,
    REQUEST_MODULE,         // a function of the module
    REQUEST_EXIT,
    REQUEST_NEW_OPERATION,  // of a script class
    REQUEST_CLASS_FIELD,
    REQUEST_CLASS_CONTENTS,
    REQUEST_REGISTERED      // a function that the host has registered
} request_kind;

/// The kinds of objects that MESSAGE_REGISTER registers.
typedef enum registered_kind { REGISTERED_FUNCTION, REGISTERED_LOADER, REGISTERED_CLASS } registered_kind;

/// Reads bytes that are not trusted. After the first wrong byte, everything reads as zero and `failed` is true.
typedef struct message_reader {
    const uint8_t *next, *end;
    bool failed;
} message_reader;

uint8_t message_byte(message_reader *reader);
uint64_t message_varint(message_reader *reader);
/// A signed number, as write_signed has written it.
int64_t message_signed(message_reader *reader);
/// A number below `limit`.
uint64_t message_count(message_reader *reader, uint64_t limit);
/// The next `count` bytes, in the message; NULL if there are fewer.
const uint8_t *message_bytes(message_reader *reader, size_t count);
/// A string, in the message.
const char *message_string(message_reader *reader, size_t *count);

static inline void write_signed(parcel_writer *writer, int64_t value) {
    writer_varint(writer, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

/// The host's end or the worker process's. Must not move.
typedef struct channel channel;
struct channel {
    int socket;
    // The received bytes. A message begins at `start`; the one that was received last takes `taken` bytes.
    uint8_t *input;
    size_t start, end, capacity, taken;
    pointer_map sent_codes;     // retained; the other side knows them by number
    size_t sent_code_bytes, code_bytes;  // of `sent_codes` and `codes`
    struct clua_code **codes;   // retained: the received codes, by number
    size_t code_count, code_capacity;
    bool trusts_peer;           // this program has written the messages that arrive
    bool is_late;               // no byte was sent or received for longer than the limit of channel_limit_waiting
    /// Writes an object, and reads one, which the caller then owns. False if that is not possible.
    bool (*write_reference)(channel *channel, parcel_writer *writer, const clua_reference *reference);
    bool (*read_reference)(channel *channel, message_reader *reader, clua_reference *reference);
};

void channel_init(channel *channel, int socket);
/// Frees what the channel owns, and closes the socket.
void channel_close(channel *channel);

/// Sends the bytes of `writer`, which stays as it is. False if the other side is gone, or memory has run out.
bool channel_send(channel *channel, message_kind kind, const parcel_writer *writer);

/// Sends a message without content, unless the socket is full. Does not wait.
void channel_try_send(channel *channel, message_kind kind);

/// Makes sending and receiving fail if no byte is sent or received for so many milliseconds; 0 for no limit.
void channel_limit_waiting(channel *channel, int milliseconds);

/// Waits for a message, which stays valid until the next call. False if the other side is gone.
bool channel_receive(channel *channel, message_kind *kind, message_reader *reader);

/// Writes and reads a parcel: its bytes, long strings, code that the other side does not know yet, and references. The reader owns the
/// parcel, which is empty if that has failed.
void write_parcel(channel *channel, parcel_writer *writer, const clua_parcel *parcel);
bool read_parcel(channel *channel, message_reader *reader, clua_parcel *parcel);

/// Gives a copy of the bytes, and `more`, to a parcel that is empty except for its number of values. If memory has run out, returns false and
/// changes nothing.
bool parcel_assemble(clua_parcel *parcel, const char *bytes, size_t count, clua_parcel_more *more);

/// Turns a parcel of parcel_assemble into the form without `more`, if its lists are short enough.
void parcel_simplify(clua_parcel *parcel);

/// More values than this fit no Lua stack.
enum { MAX_VALUES = 1000000 };

#endif
