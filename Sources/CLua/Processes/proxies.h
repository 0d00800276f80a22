// The objects of the host as a worker process has them. Nothing here raises. All of it belongs to the first thread.
#ifndef CLUA_PROXIES_H
#define CLUA_PROXIES_H

#include "Processes/message.h"

/// Makes the objects of states proxies. Call it before the first state is created.
void proxies_open(void);

/// For the channel of the worker process.
bool proxies_write(channel *channel, parcel_writer *writer, const clua_reference *reference);
bool proxies_read(channel *channel, message_reader *reader, clua_reference *reference);

/// The number of an object.
uint64_t proxy_number(const void *object);

/// The host's number for the registered class of an object, from 1 on; 0 for another object.
uint64_t proxy_class(const void *object);

/// An object that owns a parcel, for clua_reply. Takes over the parcel. NULL if memory has run out.
void *proxy_of_parcel(const clua_parcel *parcel, const clua_parcel **held);

/// Writes the numbers of the objects that the process has dropped, and forgets these objects.
void proxies_write_releases(parcel_writer *writer);

#endif
