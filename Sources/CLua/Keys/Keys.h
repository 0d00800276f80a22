// Keys: digests of the contents of parcels, and parcels that outlive the process. The functions never raise, and only the search for modules calls
// Lua. Keys may use all folders.
//
// Equal values have equal keys, although a parcel depends on the order in which Lua visits tables:
//
// 1. graph.c parses the parcel into nodes and values.
// 2. walk.c visits the graph from the body on, and numbers each node at its first visit. The bytes for a node can be read in one way only, so
//    different values have different bytes. walk.c visits one component after the other, and keeps a stack of its own.
// 3. order.c sorts the entries of tables. Keys that are tables or functions have no order of their own. Their colours are refined, as in the graph
//    isomorphism test of Weisfeiler and Leman, until they differ. With a wrong order, a look-up misses; it never finds a wrong record.
// 4. code_key.c reads the dump of a function once for each code: a digest without debug information, one for each line, and the modules that it
//    requires.
#ifndef CLUA_KEYS_FOLDER_H
#define CLUA_KEYS_FOLDER_H

#include "key.h"

#endif
