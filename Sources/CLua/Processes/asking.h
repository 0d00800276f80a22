// The functions that scripts in a worker process call. They ask the host.
#ifndef CLUA_ASKING_H
#define CLUA_ASKING_H

#include "Processes/message.h"
#include "host.h"

/// A host with the classes and functions of `model`, whose functions send requests. Made once.
const clua_host *asking_host(const clua_host *model);

/// From now on the functions ask the host nothing, because the state is being closed and finalizers run.
void asking_ends(void);

/// The pointer that stands for the run with this number when the state names its running body.
static inline const void *run_of(uint64_t serial) { return (const void *)(uintptr_t)(serial << 1); }

// Functions of worker.c that the functions here need.

channel *worker_channel(void);
/// Sends a message; ends the process if the host is gone.
void worker_send(message_kind kind, const parcel_writer *writer);
/// Performs a task and sends its outcome.
void worker_perform(lua_State *L, message_kind kind, message_reader *reader);
/// The key of a class of the host.
const void *worker_class(uint64_t number);

#endif
