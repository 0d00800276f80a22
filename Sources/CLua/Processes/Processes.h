// Processes: bodies that run in another process. Processes may use all folders.
//
// The worker process has a Lua state with the same classes. The functions of the classes send requests (asking.c), and the host's objects are numbers
// there (proxies.c). On the host's side, the state of the engine's worker is the stand-in: it runs no code of scripts. It decodes the arguments of a
// request, calls the function that a script in it would call, and sends the reply (process.c). So the API, its waits and its limits have one
// implementation. The two sides take turns on a socket. Parcels travel as bytes: long strings are copied, code is sent once, and references are
// numbers that the host resolves (message.c, exports.c). On a second socket, the host asks a thread of the process to stop the running body.
#ifndef CLUA_PROCESSES_FOLDER_H
#define CLUA_PROCESSES_FOLDER_H

#include "Processes/message.h"
#include "confinement.h"
#include "process.h"
#include "wire.h"
#include "worker.h"

#endif
