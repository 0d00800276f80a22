// The standard libraries of a state, as the host sees them.
#ifndef CLUA_LIBRARIES_H
#define CLUA_LIBRARIES_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

/// What the scripts of a state cannot use, as bits.
typedef enum clua_restriction {
    CLUA_NO_ENVIRONMENT = 1,    // LUA_PATH and similar variables have no effect
    CLUA_NO_FILES = 2,          // io, dofile, loadfile, os.remove, os.rename, os.tmpname
    CLUA_NO_SYSTEM = 4,         // io.popen, os.execute, os.exit, os.getenv, os.setlocale, warn
    CLUA_NO_DEBUG = 8,          // debug
    CLUA_NO_BYTECODE = 16,      // string.dump, and loading what it returns
    CLUA_NO_C_MODULES = 32,     // package.cpath, package.loadlib
    CLUA_NO_MODULE_FILES = 64,  // package.path
    CLUA_NO_FINALIZERS = 128,   // __gc in a metatable
    CLUA_NO_COLLECTOR = 256,    // options of collectgarbage that change how it works
    CLUA_HOST_MODULES = 512     // `require` asks the host
} clua_restriction;

/// How many bytes the states of a runtime may still print. Any thread.
typedef struct clua_output clua_output;
clua_output *clua_output_new(long long limit);
void clua_output_free(clua_output *output);

/// Takes `count` bytes off. Returns false if fewer were left. `output` may be NULL: no limit.
bool clua_output_spend(clua_output *output, size_t count);

/// What the state prints counts from now on. `output` must outlive the state. Never raises.
void clua_limit_output(lua_State *L, clua_output *output);

/// Makes bodies see only the globals of a fresh state plus those of preludes and the host. What a module does to the globals is visible
/// only to the bodies that require it. For worker states, before anything runs there. Never raises.
void clua_separate_globals(lua_State *L);

/// Turns warnings on. Never raises.
void clua_enable_warnings(lua_State *L);

/// Lua's version and copyright.
const char *clua_copyright(void);

#endif
