// Libraries: what a script finds when it starts. These are the global tables of states and of bodies, the modules and how they are loaded,
// and the standard functions that our states have in another form. Libraries may use Core, Limits and Objects.
#ifndef CLUA_LIBRARIES_FOLDER_H
#define CLUA_LIBRARIES_FOLDER_H

#include "Libraries/environment_raising.h"
#include "Libraries/libraries_raising.h"
#include "Libraries/modules_raising.h"
#include "libraries.h"

#endif
