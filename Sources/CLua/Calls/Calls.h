// Calls: how the host and Lua call each other. The host runs scripts, bodies and callbacks; a script calls functions of the host. A state is
// made and closed here, because that takes all folders. Calls may use every one of them.
#ifndef CLUA_CALLS_FOLDER_H
#define CLUA_CALLS_FOLDER_H

#include "Calls/application_raising.h"
#include "Calls/callback_raising.h"
#include "Calls/cached_closure_raising.h"
#include "callback.h"
#include "deferred.h"
#include "lifetime.h"
#include "run.h"

#endif
