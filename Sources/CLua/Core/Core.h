// Core: the record beside each Lua state. Core also defines a host, gives each kept value a fixed slot in the registry, and raises the
// out-of-memory error. Core depends on Lua alone.
#ifndef CLUA_CORE_FOLDER_H
#define CLUA_CORE_FOLDER_H

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/tables_raising.h"
#include "Core/traceback_raising.h"
#include "host.h"
#include "place.h"
#include "state.h"
#include "values.h"

#endif
