// Keys: digests of what parcels contain, and parcels that outlive the process. A parcel is parsed into a graph, which is then visited in an
// order that depends on nothing but its meaning. Nothing here raises, and only the search for modules calls Lua. Keys may use all folders.
#ifndef CLUA_KEYS_FOLDER_H
#define CLUA_KEYS_FOLDER_H

#include "key.h"

#endif
