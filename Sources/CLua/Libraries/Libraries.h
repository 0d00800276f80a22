// Libraries: the globals and functions that a script finds when it starts. This folder has the global tables of states and of bodies, the
// modules and their loading, our versions of standard functions, and `opscript.fs`. Libraries may use Core, Limits and Objects.
#ifndef CLUA_LIBRARIES_FOLDER_H
#define CLUA_LIBRARIES_FOLDER_H

#include "Libraries/environment_raising.h"
#include "Libraries/fs_raising.h"
#include "Libraries/fs_temporary.h"
#include "Libraries/isolation_raising.h"
#include "Libraries/iterators_raising.h"
#include "Libraries/libraries_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/module_loads_raising.h"
#include "Libraries/modules_raising.h"
#include "Libraries/private_tables_raising.h"
#include "Libraries/stock_raising.h"
#include "libraries.h"

#endif
