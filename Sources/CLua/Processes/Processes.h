// Processes: bodies that run in another process. The host's side answers what a body asks of it; the worker process has a Lua state and passes
// calls of the host's functions on. Processes may use all folders.
#ifndef CLUA_PROCESSES_FOLDER_H
#define CLUA_PROCESSES_FOLDER_H

#include "Processes/message.h"
#include "confinement.h"
#include "process.h"
#include "wire.h"
#include "worker.h"

#endif
