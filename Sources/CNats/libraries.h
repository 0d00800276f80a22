// The functions of the libraries that are loaded at run time.
#ifndef CNATS_LIBRARIES_H
#define CNATS_LIBRARIES_H

#if __has_include(<nats/nats.h>)
#define CNATS_IS_BUILT 1
#include <nats/nats.h>

// Every function of libnats that is used.
#define NATS_FUNCTIONS(F) \
    F(natsOptions_Create) F(natsOptions_Destroy) F(natsOptions_SetServers) F(natsOptions_SetName) F(natsOptions_SetUserInfo) \
    F(natsOptions_SetUserCredentialsFromFiles) F(natsOptions_SetNKeyFromSeed) F(natsOptions_SetSecure) \
    F(natsOptions_LoadCATrustedCertificates) F(natsOptions_LoadCertificatesChain) F(natsOptions_SetSendAsap) \
    F(natsOptions_SetMaxReconnect) F(natsOptions_SetReconnectWait) F(natsOptions_SetReconnectJitter) F(natsOptions_SetReconnectBufSize) \
    F(natsOptions_SetPingInterval) F(natsOptions_SetMaxPingsOut) F(natsOptions_UseGlobalMessageDelivery) F(natsOptions_SetTimeout) \
    F(natsOptions_SetErrorHandler) F(natsOptions_SetClosedCB) F(natsOptions_SetDisconnectedCB) F(natsOptions_SetReconnectedCB) \
    F(natsOptions_SetIOBufSize) F(natsConnection_Connect) F(natsConnection_Close) F(natsConnection_Destroy) \
    F(natsConnection_FlushTimeout) F(natsConnection_Publish) F(natsConnection_PublishRequest) F(natsConnection_PublishMsg) \
    F(natsConnection_Status) F(natsConnection_GetMaxPayload) F(natsConnection_Subscribe) F(natsConnection_GetLastError) \
    F(natsConnection_GetLocalIPAndPort) \
    F(natsSubscription_SetPendingLimits) F(natsSubscription_SetOnCompleteCB) F(natsSubscription_Destroy) F(natsMsg_Create) F(natsMsg_Destroy) F(natsMsg_GetSubject) \
    F(natsMsg_GetReply) F(natsMsg_GetData) F(natsMsg_GetDataLength) F(natsMsgHeader_Set) F(natsMsgHeader_Get) F(natsStatus_GetText) \
    F(nats_GetLastError) F(nats_Open)

#define NATS_MEMBER(name) __typeof__(&name) name;
typedef struct nats_library { NATS_FUNCTIONS(NATS_MEMBER) } nats_library;
#undef NATS_MEMBER

/// The functions, after `cnats_missing` has returned NULL.
extern nats_library nats_functions;
#else
#define CNATS_IS_BUILT 0
#endif

#endif
