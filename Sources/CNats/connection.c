#define _GNU_SOURCE  // strsep
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CNats.h"
#include "libraries.h"

// Milliseconds between two attempts to connect again, and until a connection that says nothing counts as broken.
#define RECONNECT_WAIT 200
#define RECONNECT_JITTER 100
#define PING_INTERVAL 2000
#define MAX_PINGS_OUT 3
#define CONNECT_TIMEOUT 5000
// Bytes that are kept while there is no connection.
#define KEPT_BYTES (64 << 20)
#define IO_BYTES (256 << 10)
// Messages, and their bytes, that are kept to be freed together.
#define MAX_HANDLED 32
#define MAX_HANDLED_BYTES (64 << 10)

struct cnats_connection {
    natsConnection *nats;
    cnats_handlers handlers;
    natsSubscription **subscriptions;
    size_t subscription_count;
    // Messages that were handled. A thread of libnats frees each one. Waking it costs more than the other work for a message.
    natsMsg *handled[MAX_HANDLED];
    size_t handled_count, handled_bytes;
    // With these, `cnats_close` waits until threads of libnats have made the last calls of the handlers.
    pthread_mutex_t lock;
    pthread_cond_t has_ended;
    size_t open_count;  // the connection and its subscriptions
};

// libnats may write on the thread that calls it. With TLS, a write to a broken connection raises SIGPIPE there.
typedef struct pipe_signal {
    bool was_blocked, was_pending;
} pipe_signal;

static sigset_t only_pipe_signal(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    return signals;
}

static pipe_signal block_pipe_signal(void) {
    sigset_t signals = only_pipe_signal(), before, pending;
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    bool was_blocked = sigismember(&before, SIGPIPE) == 1;
    return (pipe_signal){was_blocked, was_blocked && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1};
}

static void unblock_pipe_signal(pipe_signal signal) {
    sigset_t signals = only_pipe_signal();
    const struct timespec none = {0};
    // Otherwise the thread would get the signal when it next unblocks SIGPIPE.
    if (!signal.was_pending) sigtimedwait(&signals, NULL, &none);
    if (!signal.was_blocked) pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void free_handled(cnats_connection *connection) {
    for (size_t i = 0; i < connection->handled_count; i++) nats_functions.natsMsg_Destroy(connection->handled[i]);
    connection->handled_count = connection->handled_bytes = 0;
}

// Called on the one thread for the messages of all subscriptions.
static void handle_message(natsConnection *nats, natsSubscription *subscription, natsMsg *message, void *closure) {
    (void)nats;
    (void)subscription;
    cnats_connection *connection = closure;
    const char *status = NULL, *reply = nats_functions.natsMsg_GetReply(message);
    // Looking for a header parses the message, and few messages have one. The server's statuses have no bytes.
    if (nats_functions.natsMsg_GetDataLength(message) == 0) nats_functions.natsMsgHeader_Get(message, "Status", &status);
    cnats_message received = {
        .subject = nats_functions.natsMsg_GetSubject(message),
        .reply = reply != NULL ? reply : "",
        .bytes = (const uint8_t *)nats_functions.natsMsg_GetData(message),
        .count = (size_t)nats_functions.natsMsg_GetDataLength(message),
        .status = status != NULL ? atoi(status) : 0,
    };
    connection->handlers.message(connection->handlers.context, &received);
    connection->handled[connection->handled_count++] = message;
    connection->handled_bytes += received.count;
    if (connection->handled_count == MAX_HANDLED || connection->handled_bytes >= MAX_HANDLED_BYTES) free_handled(connection);
}

// An error of libnats without the place in its source code, which libnats puts before the text.
static const char *without_place(const char *text) {
    const char *end = text[0] == '(' ? strstr(text, "): ") : NULL;
    return end != NULL ? end + 3 : text;
}

static void end_one(void *closure) {
    cnats_connection *connection = closure;
    pthread_mutex_lock(&connection->lock);
    connection->open_count--;
    pthread_cond_signal(&connection->has_ended);
    pthread_mutex_unlock(&connection->lock);
}

static void tell(cnats_connection *connection, cnats_event event, const char *text) {
    connection->handlers.event(connection->handlers.context, event, text != NULL ? text : "");
}

static void handle_disconnected(natsConnection *nats, void *closure) {
    const char *text = NULL;
    nats_functions.natsConnection_GetLastError(nats, &text);
    tell(closure, CNATS_DISCONNECTED, text);
}

static void handle_reconnected(natsConnection *nats, void *closure) {
    (void)nats;
    tell(closure, CNATS_RECONNECTED, NULL);
}

static void handle_closed(natsConnection *nats, void *closure) {
    cnats_connection *connection = closure;
    const char *text = NULL;
    nats_functions.natsConnection_GetLastError(nats, &text);
    tell(connection, CNATS_CLOSED, text);
    end_one(connection);
}

static void handle_error(natsConnection *nats, natsSubscription *subscription, nats_status status, void *closure) {
    (void)subscription;
    const char *text = NULL;
    nats_functions.natsConnection_GetLastError(nats, &text);
    tell(closure, CNATS_FAULT, text != NULL && text[0] != '\0' ? text : nats_functions.natsStatus_GetText(status));
}

// Splits `text` in place at commas. Returns how many parts there are.
static int split(char *text, const char **parts, int limit) {
    int count = 0;
    for (char *rest = text, *part; count < limit && (part = strsep(&rest, ",")) != NULL;)
        if (part[0] != '\0') parts[count++] = part;
    return count;
}

enum { MAX_SERVERS = 32 };

static nats_status apply(natsOptions *options, const cnats_settings *settings, cnats_connection *connection) {
    const nats_library *nats = &nats_functions;
    char *servers = strdup(settings->url);
    if (servers == NULL) return NATS_NO_MEMORY;
    const char *parts[MAX_SERVERS];
    int count = split(servers, parts, MAX_SERVERS);
    nats_status status = nats->natsOptions_SetServers(options, parts, count);
    free(servers);
#define APPLY(call) \
    if (status == NATS_OK) status = nats->call
    if (settings->name != NULL) APPLY(natsOptions_SetName(options, settings->name));
    if (settings->user != NULL) APPLY(natsOptions_SetUserInfo(options, settings->user, settings->password));
    if (settings->credentials != NULL) APPLY(natsOptions_SetUserCredentialsFromFiles(options, settings->credentials, NULL));
    char public_key[CNATS_PUBLIC_KEY_SIZE];
    if (settings->nkey_seed != NULL) {
        if (!cnats_public_key(settings->nkey_seed, public_key)) return NATS_INVALID_ARG;
        APPLY(natsOptions_SetNKeyFromSeed(options, public_key, settings->nkey_seed));
    }
    if (settings->requires_tls) APPLY(natsOptions_SetSecure(options, true));
    if (settings->authorities != NULL) APPLY(natsOptions_LoadCATrustedCertificates(options, settings->authorities));
    if (settings->certificate != NULL) APPLY(natsOptions_LoadCertificatesChain(options, settings->certificate, settings->private_key));
    APPLY(natsOptions_SetSendAsap(options, true));
    APPLY(natsOptions_SetIOBufSize(options, IO_BYTES));
    APPLY(natsOptions_SetTimeout(options, CONNECT_TIMEOUT));
    APPLY(natsOptions_SetMaxReconnect(options, -1));
    APPLY(natsOptions_SetReconnectWait(options, RECONNECT_WAIT));
    APPLY(natsOptions_SetReconnectJitter(options, RECONNECT_JITTER, RECONNECT_JITTER));
    APPLY(natsOptions_SetReconnectBufSize(options, KEPT_BYTES));
    APPLY(natsOptions_SetPingInterval(options, PING_INTERVAL));
    APPLY(natsOptions_SetMaxPingsOut(options, MAX_PINGS_OUT));
    // One thread for the messages of all subscriptions, the same for all connections.
    APPLY(natsOptions_UseGlobalMessageDelivery(options, true));
    APPLY(natsOptions_SetErrorHandler(options, handle_error, connection));
    APPLY(natsOptions_SetClosedCB(options, handle_closed, connection));
    APPLY(natsOptions_SetDisconnectedCB(options, handle_disconnected, connection));
    APPLY(natsOptions_SetReconnectedCB(options, handle_reconnected, connection));
#undef APPLY
    return status;
}

static void free_connection(cnats_connection *connection) {
    for (size_t i = 0; i < connection->subscription_count; i++) nats_functions.natsSubscription_Destroy(connection->subscriptions[i]);
    free(connection->subscriptions);
    free_handled(connection);
    if (connection->nats != NULL) nats_functions.natsConnection_Destroy(connection->nats);
    pthread_mutex_destroy(&connection->lock);
    pthread_cond_destroy(&connection->has_ended);
    free(connection);
}

cnats_connection *cnats_connect(const cnats_settings *settings, cnats_handlers handlers, char *error, size_t error_size) {
    const char *missing = cnats_missing();
    if (missing != NULL) {
        snprintf(error, error_size, "%s", missing);
        return NULL;
    }
    cnats_connection *connection = calloc(1, sizeof *connection);
    natsOptions *options = NULL;
    nats_status status = connection == NULL ? NATS_NO_MEMORY : nats_functions.natsOptions_Create(&options);
    if (status == NATS_OK) {
        connection->handlers = handlers;
        pthread_mutex_init(&connection->lock, NULL);
        pthread_cond_init(&connection->has_ended, NULL);
        status = apply(options, settings, connection);
        // One signature in 256 begins with a zero byte. libnats takes it for empty and does not send it. At the next attempt, the server has
        // libnats sign something else.
        bool signs = settings->credentials != NULL || settings->nkey_seed != NULL;
        for (int tries = signs ? 3 : 1; status == NATS_OK && connection->nats == NULL && tries > 0; tries--) {
            // The threads that libnats starts here inherit the blocked signal.
            pipe_signal signal = block_pipe_signal();
            nats_status result = nats_functions.natsConnection_Connect(&connection->nats, options);
            unblock_pipe_signal(signal);
            if (result != NATS_CONNECTION_AUTH_FAILED || tries == 1) status = result;
        }
    }
    if (options != NULL) nats_functions.natsOptions_Destroy(options);
    if (status == NATS_OK) {
        connection->open_count = 1;
        return connection;
    }
    nats_status ignored;
    const char *text = nats_functions.nats_GetLastError(&ignored);
    if (status == NATS_TIMEOUT) {
        snprintf(error, error_size, "it has not answered for %d seconds", CONNECT_TIMEOUT / 1000);
    } else {
        snprintf(error, error_size, "%s", text != NULL && text[0] != '\0' ? without_place(text) : nats_functions.natsStatus_GetText(status));
    }
    if (connection != NULL) free_connection(connection);
    return NULL;
}

void cnats_close(cnats_connection *connection, int64_t milliseconds) {
    pipe_signal signal = block_pipe_signal();
    if (milliseconds > 0) nats_functions.natsConnection_FlushTimeout(connection->nats, milliseconds);
    nats_functions.natsConnection_Close(connection->nats);
    unblock_pipe_signal(signal);
    pthread_mutex_lock(&connection->lock);
    while (connection->open_count > 0) pthread_cond_wait(&connection->has_ended, &connection->lock);
    pthread_mutex_unlock(&connection->lock);
    // libnats keeps the last error for each thread that has called it, and frees it only for its own threads before they end.
    nats_functions.nats_ReleaseThreadMemory();
}

void cnats_free(cnats_connection *connection) {
    free_connection(connection);
    nats_functions.nats_ReleaseThreadMemory();
}

bool cnats_subscribe(cnats_connection *connection, const char *subject) {
    size_t count = connection->subscription_count;
    natsSubscription **subscriptions = realloc(connection->subscriptions, (count + 1) * sizeof *subscriptions);
    if (subscriptions == NULL) return false;
    connection->subscriptions = subscriptions;
    natsSubscription *subscription = NULL;
    pipe_signal signal = block_pipe_signal();
    nats_status status = nats_functions.natsConnection_Subscribe(&subscription, connection->nats, subject, handle_message, connection);
    unblock_pipe_signal(signal);
    if (status != NATS_OK) return false;
    // The protocol limits the number of messages under way. A message that libnats dropped would have to be sent again.
    nats_functions.natsSubscription_SetPendingLimits(subscription, -1, -1);
    subscriptions[count] = subscription;
    connection->subscription_count++;
    pthread_mutex_lock(&connection->lock);
    connection->open_count++;
    pthread_mutex_unlock(&connection->lock);
    if (nats_functions.natsSubscription_SetOnCompleteCB(subscription, end_one, connection) == NATS_OK) return true;
    // Closing the connection does not wait for a subscription whose end is not told.
    end_one(connection);
    return false;
}

const char *cnats_publish(
    cnats_connection *connection, const char *subject, const char *reply, const char *id, const void *bytes, size_t count) {
    const nats_library *nats = &nats_functions;
    nats_status status;
    pipe_signal signal = block_pipe_signal();
    if (id == NULL) {
        status = reply == NULL ? nats->natsConnection_Publish(connection->nats, subject, bytes, (int)count)
                               : nats->natsConnection_PublishRequest(connection->nats, subject, reply, bytes, (int)count);
    } else {
        natsMsg *message = NULL;
        status = nats->natsMsg_Create(&message, subject, reply, bytes, (int)count);
        if (status == NATS_OK) status = nats->natsMsgHeader_Set(message, "Nats-Msg-Id", id);
        if (status == NATS_OK) status = nats->natsConnection_PublishMsg(connection->nats, message);
        if (message != NULL) nats->natsMsg_Destroy(message);
    }
    unblock_pipe_signal(signal);
    return status == NATS_OK ? NULL : nats->natsStatus_GetText(status);
}

bool cnats_is_connected(cnats_connection *connection) {
    return nats_functions.natsConnection_Status(connection->nats) == NATS_CONN_STATUS_CONNECTED;
}

int64_t cnats_max_payload(cnats_connection *connection) { return nats_functions.natsConnection_GetMaxPayload(connection->nats); }

void cnats_last_error(cnats_connection *connection, char text[CNATS_ERROR_SIZE]) {
    const char *last = NULL;
    nats_functions.natsConnection_GetLastError(connection->nats, &last);
    snprintf(text, CNATS_ERROR_SIZE, "%s", last != NULL ? last : "");
}
