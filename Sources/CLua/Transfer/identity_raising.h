// The identity of metatables and classes. May raise, except where noted.
//
// A class gets a number when a state first sends it. A copy of the class has the same number. If a state has the table of that number, the table
// replaces each copy that arrives. So values that return have the class that they had before, and all results of one class share it. A worker's
// state has one copy of a class for each body, because a body may change its copy. A table with weak keys, in which classes keep data of
// their objects, also has a number, and gets the entries of each copy that arrives.
#ifndef CLUA_IDENTITY_RAISING_H
#define CLUA_IDENTITY_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>

#include "state.h"

/// The number of the table on top, new or old; 0 if it is no class. Any metatable may be one. Needs 10 stack slots.
lua_Integer clua_identity_of(lua_State *L, bool is_metatable);

/// Pushes the table with this number, if the running code has one. Returns false and pushes nothing if not. Needs 2 slots.
bool clua_push_identified(lua_State *L, lua_Integer number);

/// Makes the table on top the one with this number. Needs 5 slots.
void clua_identify(lua_State *L, lua_Integer number);

/// Whether the string is a name for metatables: it begins with `__`.
static inline bool clua_is_meta_name(const char *bytes) { return bytes[0] == '_' && bytes[1] == '_'; }

typedef struct clua_identities {
    bool is_active, is_used, is_pushed;
} clua_identities;

/// Begins a body, which has classes of its own. May push 1 value, which stays until the body ends. Never raises. Needs 1 slot.
void clua_begin_identities(lua_State *L, clua_identities *outer);

/// Ends the body. Never raises. Needs 1 slot.
void clua_end_identities(lua_State *L, const clua_identities *outer);

#endif
