// Objects: the host's objects as Lua values. A handle holds one object. This folder creates handles, finds them again, pins them, and
// releases their objects. It also has the class tables and the observers of scripts. Objects may use Core and Limits.
#ifndef CLUA_OBJECTS_FOLDER_H
#define CLUA_OBJECTS_FOLDER_H

#include "Objects/class_raising.h"
#include "Objects/collections_raising.h"
#include "Objects/object_raising.h"
#include "Objects/observer_raising.h"
#include "Objects/unread_raising.h"
#include "class.h"
#include "object.h"
#include "observer.h"

#endif
