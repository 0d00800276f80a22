// A connection to a NATS server, the digests of messages, and other functions that Swift cannot call. libnats and libcrypto are loaded when the
// first connection is made: a run without a cluster does not pay for them, and a machine need not have them.
#ifndef CNATS_H
#define CNATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cnats_connection cnats_connection;

/// How to connect. A pointer may be NULL. The strings are copied.
typedef struct cnats_settings {
    const char *url;          // one URL, or several with commas between; may contain user and password
    const char *name;         // the name of the connection in the server's monitoring
    const char *user, *password;
    const char *credentials;  // a file of credentials
    const char *nkey_seed;    // a file with the seed of a user's nkey
    const char *authorities;  // a file of certificates of authorities to trust
    const char *certificate, *private_key;  // files that identify the client
    bool requires_tls;
} cnats_settings;

/// A message that has arrived. Valid during the call of the handler.
typedef struct cnats_message {
    const char *subject;
    const char *reply;  // "" for none
    const uint8_t *bytes;
    size_t count;
    int status;  // the server's status in place of a message, such as 503 for "no responders"; 0 for a message
} cnats_message;

typedef enum cnats_event { CNATS_DISCONNECTED, CNATS_RECONNECTED, CNATS_CLOSED, CNATS_FAULT } cnats_event;

/// Called on threads of libnats. One thread delivers all messages, one after the other. Other threads deliver events.
typedef struct cnats_handlers {
    void *context;
    void (*message)(void *context, const cnats_message *message);
    void (*event)(void *context, cnats_event event, const char *text);
} cnats_handlers;

/// The reason why this process cannot connect; NULL if it can. Loads the libraries. From any thread.
const char *cnats_missing(void);

/// Connects. Returns NULL, with `error` filled in, if that fails. After a break, libnats connects again until `cnats_close`. Messages that are
/// published meanwhile are kept, up to 64 MiB.
cnats_connection *cnats_connect(const cnats_settings *settings, cnats_handlers handlers, char *error, size_t error_size);

/// Closes the connection when all published messages are sent, or after `milliseconds`. No handler is called afterwards. Not from a handler.
void cnats_close(cnats_connection *connection, int64_t milliseconds);

/// Frees a closed connection, once no other thread can use it.
void cnats_free(cnats_connection *connection);

/// Subscribes to a subject, which may contain wildcards. False if that fails.
bool cnats_subscribe(cnats_connection *connection, const char *subject);

/// Publishes a message. Does not wait for the server. `reply` is NULL for none; `id` is the name by which JetStream recognizes a message that
/// arrives twice, or NULL. Returns NULL, or the error. From any thread.
const char *cnats_publish(
    cnats_connection *connection, const char *subject, const char *reply, const char *id, const void *bytes, size_t count);

/// Whether the connection is open now. From any thread.
bool cnats_is_connected(cnats_connection *connection);

/// The greatest number of bytes of a message that the server takes.
int64_t cnats_max_payload(cnats_connection *connection);

enum { CNATS_ERROR_SIZE = 512 };

/// The last error of the connection; empty without one. An error of the server is known before the server's later messages arrive.
void cnats_last_error(cnats_connection *connection, char text[CNATS_ERROR_SIZE]);

enum { CNATS_DIGEST_COUNT = 32 };

enum { CNATS_NAME_COUNT = 16 };

/// The XXH3 digest of bytes, which names them.
void cnats_name(const void *bytes, size_t count, uint8_t name[CNATS_NAME_COUNT]);

/// The SHA-256 digest of bytes. False without libcrypto.
bool cnats_digest(const void *bytes, size_t count, uint8_t digest[CNATS_DIGEST_COUNT]);

/// The HMAC with SHA-256 of a subject, a zero and bytes. False without libcrypto.
bool cnats_authenticate(
    const void *key, size_t key_count, const void *subject, size_t subject_count, const void *bytes, size_t count,
    uint8_t code[CNATS_DIGEST_COUNT]);

/// Opens a new file without a name in a folder. The system removes it when it is closed; no child process inherits it. -1, with errno, on failure.
int cnats_open_nameless(const char *folder);

enum { CNATS_PUBLIC_KEY_SIZE = 57 };

/// The public key of a user whose seed is in a file. False if the file has no such seed.
bool cnats_public_key(const char *seed_path, char text[CNATS_PUBLIC_KEY_SIZE]);

#endif
