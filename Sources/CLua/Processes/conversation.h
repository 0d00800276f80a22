// Shared by the files of the host's side.
#ifndef CLUA_CONVERSATION_H
#define CLUA_CONVERSATION_H

#include <stdatomic.h>

#include "Processes/exports.h"
#include "Processes/message.h"
#include "process.h"

struct clua_process {
    channel channel;  // first, so that the channel's functions find the process
    lua_State *L;     // the main coroutine of the stand-in
    exports exports;
    void **functions;  // by number: the functions that the host has registered
    size_t function_count, function_capacity;
    const void **classes;  // by number: the keys of the host's classes
    size_t class_count, class_capacity;
    bool has_printed_too_much;
    unsigned depth;  // the number of tasks that have not ended
    bool is_lost;
    atomic_bool computes;
    atomic_ullong callback;  // the serial number of the innermost callback that runs there; 0 for none
    uint64_t last_callback;
};

/// Sends a task and answers requests until the outcome arrives. Frees the writer. Returns the status of the task. Never raises.
int process_perform(lua_State *L, clua_process *process, message_kind kind, parcel_writer *writer, uint64_t *spent, clua_parcel *results,
                    clua_failure *failure);

/// As process_perform, for a task without results.
int process_perform_simple(clua_process *process, message_kind kind, parcel_writer *writer, clua_failure *failure);

/// Writes an allowance, which may be NULL. Returns the number that the process may use of it.
int64_t write_allowance(parcel_writer *writer, const clua_allowance *allowance);

/// Takes off the allowance the number that the process says it has spent, but at most one more than it was given.
void spend_there(clua_allowance *allowance, int64_t given, uint64_t spent);

/// If the value at `index` is a function that stands for one of a script, pushes the script's function and returns true. May raise.
bool push_wrapped(lua_State *L, int index);

/// The hook that a coroutine had before forbid_scripts.
typedef struct hook_before {
    lua_Hook hook;
    int mask, count;
} hook_before;

/// Makes code of scripts raise an error in the stand-in until allow_scripts. Requests may be nested. Never raise.
void forbid_scripts(lua_State *L, hook_before *before);
void allow_scripts(lua_State *L, const hook_before *before);

/// As forbid_scripts, if code that ran meanwhile has set another hook.
void keep_scripts_forbidden(lua_State *L, hook_before *before);

#endif
