// Core: the record beside each Lua state, and what all other folders need of it. Core says what a host is. It gives everything that is kept
// in the registry a place of its own, and raises the error for lack of memory. It uses nothing but Lua.
#ifndef CLUA_CORE_FOLDER_H
#define CLUA_CORE_FOLDER_H

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "host.h"
#include "state.h"
#include "values.h"

#endif
