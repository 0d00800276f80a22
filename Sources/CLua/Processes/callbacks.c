// Functions of scripts that the stand-in keeps for later: completion blocks, and functions of timers, programs and observations. A C function
// takes the place of each, and runs a copy in the process.
#include <lua5.4/lauxlib.h>
#include <stdlib.h>

#include "Calls/Calls.h"
#include "Core/Core.h"
#include "Limits/Limits.h"
#include "Processes/conversation.h"

static const char type_name[] = "opscript.wrapped";

static int release_wrapped(lua_State *L) {
    clua_parcel_release(lua_touserdata(L, 1));
    return 0;
}

// Raises the failure and releases it.
static int raise_failure(lua_State *L, clua_failure *failure) {
    int stop = failure->stop;
    bool is_memory_error = failure->status == LUA_ERRMEM, is_lost = failure->status == CLUA_PROCESS_LOST;
    int status = clua_push_bytes(L, failure->message != NULL ? failure->message : "", failure->message_count);
    clua_failure_release(failure);
    if (stop != CLUA_NOT_STOPPED) {
        clua_stop_here(L, (clua_stop_reason)stop);
        return clua_raise_stop(L);
    }
    // The process may have been killed because it did not stop. Then this raises the stop.
    if (is_lost) clua_look(L);
    return status != LUA_OK || is_memory_error ? clua_no_memory(L) : lua_error(L);
}

// Runs a function in the process. Upvalue: the parcel of the function.
static int call_in_process(lua_State *L) {
    const clua_parcel *function = lua_touserdata(L, lua_upvalueindex(1));
    clua_process *process = clua_state_of(L)->process;
    if (process == NULL) return luaL_error(L, "the worker process has ended");
    clua_parcel arguments = {0}, results = {0};
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    if (clua_send(L, lua_gettop(L), CLUA_INVOCATION, &arguments) != LUA_OK) return lua_error(L);
    parcel_writer writer;
    writer_init(&writer);
    uint64_t serial = 2 * ++process->last_callback + 1;
    writer_varint(&writer, serial);
    int64_t given = write_allowance(&writer, clua_state_of(L)->stop.shared_instructions);
    write_allowance(&writer, clua_state_of(L)->output);
    write_parcel(&process->channel, &writer, function);
    write_parcel(&process->channel, &writer, &arguments);
    clua_parcel_release(&arguments);
    unsigned long long outer = atomic_exchange(&process->callback, serial);
    uint64_t spent = 0;
    clua_failure failure = {0};
    int status = process_perform(L, process, MESSAGE_CALL, &writer, &spent, &results, &failure);
    atomic_store(&process->callback, outer);
    spend_there(clua_state_of(L)->stop.shared_instructions, given, spent);
    clua_parcel_release(&results);
    return status == LUA_OK ? 0 : raise_failure(L, &failure);
}

static void wrap_function(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (!lua_isfunction(L, index) || lua_iscfunction(L, index)) return;
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    clua_parcel *parcel = lua_newuserdatauv(L, sizeof *parcel, 0);
    *parcel = (clua_parcel){0};
    if (luaL_newmetatable(L, type_name)) {
        lua_pushcfunction(L, release_wrapped);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    lua_pushvalue(L, index);
    if (clua_send(L, 1, CLUA_BODY, parcel) != LUA_OK) lua_error(L);
    lua_pop(L, 1);
    lua_pushcclosure(L, call_in_process, 1);
    lua_replace(L, index);
}

bool push_wrapped(lua_State *L, int index) {
    if (lua_tocfunction(L, index) != call_in_process) return false;
    lua_getupvalue(L, index, 1);
    const clua_parcel *parcel = lua_touserdata(L, -1);
    int top = lua_gettop(L);
    if (clua_decode(L, parcel, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
    lua_replace(L, top);
    lua_settop(L, top);
    return true;
}

void clua_stand_in(lua_State *L) { clua_state_of(L)->wrap_function = wrap_function; }

uint64_t clua_process_callback(const clua_process *process) { return atomic_load(&process->callback); }

// MARK: no code of scripts

// The only script code that could run here is a metamethod of an argument. Only the functions that make closures may run.
static void refuse(lua_State *L, lua_Debug *activation) {
    lua_getinfo(L, "f", activation);
    bool makes_closure = lua_topointer(L, -1) == clua_state_of(L)->running_factory;
    lua_pop(L, 1);
    if (!makes_closure) luaL_error(L, CLUA_METAMETHOD_REFUSED);
}

void forbid_scripts(lua_State *L, hook_before *before) {
    *before = (hook_before){lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L)};
    lua_sethook(L, refuse, LUA_MASKCOUNT, 1);
}

void keep_scripts_forbidden(lua_State *L, hook_before *before) {
    if (lua_gethook(L) != refuse) forbid_scripts(L, before);
}

void allow_scripts(lua_State *L, const hook_before *before) {
    clua_state_of(L)->running_factory = NULL;  // the factory may have failed
    // If another hook is set, it stops the code that runs here.
    if (lua_gethook(L) == refuse) lua_sethook(L, before->hook, before->mask, before->count);
}
