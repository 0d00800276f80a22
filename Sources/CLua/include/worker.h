// The worker process's side: a Lua state that runs bodies for a host in another process. See process.h.
#ifndef CLUA_WORKER_H
#define CLUA_WORKER_H

#include "host.h"

/// The exit status of a worker process that cannot reach its host any more.
#define CLUA_WORKER_LEFT 111

/// Performs the tasks of the host at the other end of `socket`, until the host ends the process or closes the socket. `control` is the socket of
/// clua_stop_message. Scripts see the classes and functions of `model`; each call of them is sent to the host. Does not return. Call it on the
/// first thread, before any other state exists.
_Noreturn void clua_serve(int socket, int control, const clua_host *model);

#endif
