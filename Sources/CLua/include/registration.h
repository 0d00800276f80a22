// Functions and classes that an application registers while it runs. Each state gets them in the same order.
#ifndef CLUA_REGISTRATION_H
#define CLUA_REGISTRATION_H

#include <lua5.4/lua.h>
#include <stddef.h>

#include "protect.h"

/// A function of the host and its name. The host keeps the function alive as long as the state.
typedef struct clua_named_function {
    const char *name;
    void *function;
} clua_named_function;

/// A class of objects of the kind `object_kind`.
typedef struct clua_object_class {
    const void *key;
    const char *name;
    const clua_named_function *functions;  // fields of the class table
    size_t function_count;
    const clua_named_function *methods;
    size_t method_count;
    const clua_named_function *getters;  // object, name
    size_t getter_count;
    const clua_named_function *setters;  // object, name, value
    size_t setter_count;
    const clua_named_function *metamethods;
    size_t metamethod_count;
    void *get_other;  // called as a getter for any other key
    void *set_other;
} clua_object_class;

/// Assigns a function to the global `name`. From now on this is the value in a fresh state.
int clua_register(lua_State *L, clua_named_function function, clua_failure *failure);

/// Makes the class known in this state, and assigns its class table to a global, if it has functions.
int clua_register_class(lua_State *L, const clua_object_class *class, clua_failure *failure);

/// Makes `require` ask the function `loader` for modules, after `package.preload`. The function gets the module's name. It returns the
/// module's source and a chunk name, or no values.
int clua_register_loader(lua_State *L, void *loader, clua_failure *failure);

/// Pushes what a name such as `print` or `string.format` means: a global, or a field of one.
int clua_push_named(lua_State *L, const char *name, clua_failure *failure);

/// Pushes a string. Returns LUA_OK, or an error status and pushes nothing. Never raises. Needs 3 free stack slots, leaves 1.
int clua_push_bytes(lua_State *L, const char *bytes, size_t count);

#endif
