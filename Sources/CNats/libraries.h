// The functions of libnats that this module uses. They are loaded at run time. With these declarations, a build needs no libnats-dev, and is the same
// whether that is installed or not. A test compares the declarations with libnats's own header.
#ifndef CNATS_LIBRARIES_H
#define CNATS_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

// The tags are those of libnats's header, so that a compiler can compare the two.
typedef struct __natsConnection natsConnection;
typedef struct __natsMsg natsMsg;
typedef struct __natsOptions natsOptions;
typedef struct __natsSubscription natsSubscription;

// Enumerations of libnats, which C compilers represent by this type.
typedef unsigned nats_status;
typedef unsigned nats_connection_status;

#define NATS_OK 0
#define NATS_CONNECTION_AUTH_FAILED 11
#define NATS_INVALID_ARG 16
#define NATS_NO_MEMORY 24
#define NATS_TIMEOUT 26

#define NATS_CONN_STATUS_CONNECTED 2

typedef void (*nats_connection_handler)(natsConnection *, void *closure);
typedef void (*nats_error_handler)(natsConnection *, natsSubscription *, nats_status, void *closure);
typedef void (*nats_message_handler)(natsConnection *, natsSubscription *, natsMsg *, void *closure);

// Every function of libnats that is used: the type of its result, its name and its parameters.
#define NATS_FUNCTIONS(F) \
    F(nats_status, nats_Open, int64_t lock_spins) \
    F(void, nats_ReleaseThreadMemory, void) \
    F(const char *, nats_GetLastError, nats_status *status) \
    F(const char *, natsStatus_GetText, nats_status status) \
    F(nats_status, natsOptions_Create, natsOptions **options) \
    F(void, natsOptions_Destroy, natsOptions *options) \
    F(nats_status, natsOptions_SetServers, natsOptions *options, const char **servers, int count) \
    F(nats_status, natsOptions_SetName, natsOptions *options, const char *name) \
    F(nats_status, natsOptions_SetUserInfo, natsOptions *options, const char *user, const char *password) \
    F(nats_status, natsOptions_SetUserCredentialsFromFiles, natsOptions *options, const char *credentials, const char *seed) \
    F(nats_status, natsOptions_SetNKeyFromSeed, natsOptions *options, const char *public_key, const char *seed) \
    F(nats_status, natsOptions_SetSecure, natsOptions *options, bool is_secure) \
    F(nats_status, natsOptions_LoadCATrustedCertificates, natsOptions *options, const char *authorities) \
    F(nats_status, natsOptions_LoadCertificatesChain, natsOptions *options, const char *certificates, const char *private_key) \
    F(nats_status, natsOptions_SetSendAsap, natsOptions *options, bool is_sent_at_once) \
    F(nats_status, natsOptions_SetMaxReconnect, natsOptions *options, int attempts) \
    F(nats_status, natsOptions_SetReconnectWait, natsOptions *options, int64_t milliseconds) \
    F(nats_status, natsOptions_SetReconnectJitter, natsOptions *options, int64_t milliseconds, int64_t milliseconds_with_tls) \
    F(nats_status, natsOptions_SetReconnectBufSize, natsOptions *options, int bytes) \
    F(nats_status, natsOptions_SetPingInterval, natsOptions *options, int64_t milliseconds) \
    F(nats_status, natsOptions_SetMaxPingsOut, natsOptions *options, int count) \
    F(nats_status, natsOptions_UseGlobalMessageDelivery, natsOptions *options, bool is_global) \
    F(nats_status, natsOptions_SetTimeout, natsOptions *options, int64_t milliseconds) \
    F(nats_status, natsOptions_SetErrorHandler, natsOptions *options, nats_error_handler handler, void *closure) \
    F(nats_status, natsOptions_SetClosedCB, natsOptions *options, nats_connection_handler handler, void *closure) \
    F(nats_status, natsOptions_SetDisconnectedCB, natsOptions *options, nats_connection_handler handler, void *closure) \
    F(nats_status, natsOptions_SetReconnectedCB, natsOptions *options, nats_connection_handler handler, void *closure) \
    F(nats_status, natsOptions_SetIOBufSize, natsOptions *options, int bytes) \
    F(nats_status, natsConnection_Connect, natsConnection **connection, natsOptions *options) \
    F(void, natsConnection_Close, natsConnection *connection) \
    F(void, natsConnection_Destroy, natsConnection *connection) \
    F(nats_status, natsConnection_FlushTimeout, natsConnection *connection, int64_t milliseconds) \
    F(nats_status, natsConnection_Publish, natsConnection *connection, const char *subject, const void *bytes, int count) \
    F(nats_status, natsConnection_PublishRequest, natsConnection *connection, const char *subject, const char *reply, const void *bytes, int count) \
    F(nats_status, natsConnection_PublishMsg, natsConnection *connection, natsMsg *message) \
    F(nats_connection_status, natsConnection_Status, natsConnection *connection) \
    F(int64_t, natsConnection_GetMaxPayload, natsConnection *connection) \
    F(nats_status, natsConnection_Subscribe, natsSubscription **subscription, natsConnection *connection, const char *subject, \
      nats_message_handler handler, void *closure) \
    F(nats_status, natsConnection_GetLastError, natsConnection *connection, const char **text) \
    F(nats_status, natsSubscription_SetPendingLimits, natsSubscription *subscription, int messages, int bytes) \
    F(nats_status, natsSubscription_SetOnCompleteCB, natsSubscription *subscription, void (*handler)(void *closure), void *closure) \
    F(void, natsSubscription_Destroy, natsSubscription *subscription) \
    F(nats_status, natsMsg_Create, natsMsg **message, const char *subject, const char *reply, const char *bytes, int count) \
    F(void, natsMsg_Destroy, natsMsg *message) \
    F(const char *, natsMsg_GetSubject, const natsMsg *message) \
    F(const char *, natsMsg_GetReply, const natsMsg *message) \
    F(const char *, natsMsg_GetData, const natsMsg *message) \
    F(int, natsMsg_GetDataLength, const natsMsg *message) \
    F(nats_status, natsMsgHeader_Set, natsMsg *message, const char *key, const char *value) \
    F(nats_status, natsMsgHeader_Get, natsMsg *message, const char *key, const char **value)

#define NATS_MEMBER(result, name, ...) result (*name)(__VA_ARGS__);
typedef struct nats_library { NATS_FUNCTIONS(NATS_MEMBER) } nats_library;
#undef NATS_MEMBER

/// The functions, after `cnats_missing` has returned NULL.
extern nats_library nats_functions;

#endif
