// Everything in C that Swift sees: Lua's own headers and this layer. docs/c-boundary.md states the rule.
#ifndef CLUA_H
#define CLUA_H

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>

#include "adoption.h"
#include "allowance.h"
#include "application.h"
#include "callback.h"
#include "class.h"
#include "confinement.h"
#include "freezing.h"
#include "host.h"
#include "interrupt.h"
#include "key.h"
#include "ledger.h"
#include "deferred.h"
#include "libraries.h"
#include "lifetime.h"
#include "object.h"
#include "observer.h"
#include "parcel.h"
#include "place.h"
#include "process.h"
#include "protect.h"
#include "reading.h"
#include "registration.h"
#include "run.h"
#include "state.h"
#include "stop.h"
#include "values.h"
#include "wire.h"
#include "worker.h"

#endif
