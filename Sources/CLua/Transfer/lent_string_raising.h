// Lua strings in memory of the host: a large value that arrives from another process is not copied once more.
//
// Lua keeps a string's bytes behind a header, in one block. The receiver of a string leaves room for the header. When Lua asks for the block,
// it gets that memory, and then copies the bytes onto themselves. A second state that needs the string has a copy. This saves a copy to new
// memory, whose page faults take longer still: an argument of 100 MB takes 90 ms to a worker of a cluster, and 150 ms with the copy.
#ifndef CLUA_LENT_STRING_RAISING_H
#define CLUA_LENT_STRING_RAISING_H

#include "Transfer/shared_string.h"
#include "state.h"

/// Pushes a string in the room around its bytes, if there is room for a header and no state uses it, and otherwise a copy. May raise.
void clua_push_shared_string(lua_State *L, clua_shared_string *string);

#endif
