// Calls: how the host and Lua call each other. The host runs scripts, bodies and callbacks; scripts call functions of the host. States are
// created and closed here, because that involves every folder. Calls may use all folders.
#ifndef CLUA_CALLS_FOLDER_H
#define CLUA_CALLS_FOLDER_H

#include "Calls/application_raising.h"
#include "Calls/callback_raising.h"
#include "Calls/cached_closure_raising.h"
#include "Calls/coroutines_raising.h"
#include "Calls/opening_raising.h"
#include "Calls/run_apart.h"
#include "adoption.h"
#include "application.h"
#include "callback.h"
#include "deferred.h"
#include "lifetime.h"
#include "protect.h"
#include "reading.h"
#include "registration.h"
#include "run.h"

#endif
