// The host's side of a worker process. The process runs bodies in a state of its own. The host answers their calls.
//
// A state of the host, the stand-in, makes the answers. It gets copies of the arguments of each call, calls the host's function with them, and
// sends the reply back. It runs no code of scripts. All functions belong to the thread of the stand-in, and leave its stack unchanged.
#ifndef CLUA_PROCESS_H
#define CLUA_PROCESS_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allowance.h"
#include "confinement.h"
#include "parcel.h"
#include "registration.h"
#include "run.h"

/// The status of a call that the worker process did not finish: it has ended, or has sent a wrong message. All later calls fail.
#define CLUA_PROCESS_LOST 100

typedef struct clua_process clua_process;

/// Increase it when the messages change: host and worker process may be different executables.
#define CLUA_PROCESS_PROTOCOL 1

typedef struct clua_process_settings {
    unsigned protocol;      // CLUA_PROCESS_PROTOCOL
    unsigned restrictions;  // clua_restriction bits
    bool shows_warnings, has_seed;
    uint64_t seed, number;  // see clua_seed_random
    size_t state_limit;     // bytes of the process's state; 0 for no limit
    size_t parcel_limit;    // as in clua_limit_parcels
    clua_confinement confinement;
} clua_process_settings;

/// One body and its limits. The object of the body is the operation.
typedef struct clua_process_run {
    clua_body body;  // without arguments
    const clua_parcel *parcel;
    int result_limit;
    size_t memory_limit;
    uint64_t serial;  // identifies the run in clua_stop_message; even, not 0
    int64_t instructions;  // CLUA_NO_INSTRUCTION_LIMIT for no limit
    clua_allowance *shared_instructions;  // may be NULL
    unsigned processor_seconds;  // which the process may use from now on, before the kernel ends it; 0 for no limit
} clua_process_run;

/// A message that the host writes to the control socket of the process to stop a run. Repeating it does no harm.
typedef struct clua_stop_message {
    uint64_t serial;
    int32_t reason;  // a clua_stop_reason
    int32_t unused;
} clua_stop_message;

/// Makes a new state a stand-in, which keeps no functions of scripts. Never raises.
void clua_stand_in(lua_State *L);

/// Takes over the socket. The state of `L` is the stand-in. Returns NULL, and closes the socket, if memory runs out.
clua_process *clua_process_new(lua_State *L, int socket);

/// Closes the socket and releases the objects that the process has.
void clua_process_free(clua_process *process);

/// Asks the process to close its state and to end. Does not wait.
void clua_process_end(clua_process *process);

/// Each of these waits for the process, and answers its calls meanwhile. Returns LUA_OK, or a status, CLUA_PROCESS_LOST included, and fills
/// `failure`.
///
/// The first one sets the process up. Each message of the set-up may take `milliseconds`; 0 for no limit.
int clua_process_start(clua_process *process, const clua_process_settings *settings, int milliseconds, clua_failure *failure);
int clua_process_register(clua_process *process, clua_named_function function, clua_failure *failure);
int clua_process_register_class(clua_process *process, const clua_object_class *class, clua_failure *failure);
int clua_process_register_loader(clua_process *process, void *loader, clua_failure *failure);
int clua_process_apply_settings(clua_process *process, const clua_parcel *setting, clua_failure *failure);
int clua_process_run_prelude(clua_process *process, const clua_parcel *prelude, clua_failure *failure);

/// Runs a body in the process. `L` is the running coroutine of the stand-in.
int clua_process_run_body(lua_State *L, clua_process *process, const clua_process_run *run, clua_parcel *results, clua_failure *failure);

/// Whether the process has ended, or has sent a wrong message.
bool clua_process_is_lost(const clua_process *process);

/// Whether the process is lost because its set-up took too long.
bool clua_process_is_late(const clua_process *process);

/// Whether a task has not ended: the process must not be freed yet.
bool clua_process_is_busy(const clua_process *process);

/// The serial number, for clua_stop_message, of the callback that the process runs; 0 for none. From any thread, as long as the process exists.
uint64_t clua_process_callback(const clua_process *process);

/// Whether the process computes now, and does not wait for the host. From any thread, as long as the process exists.
bool clua_process_computes(const clua_process *process);

/// Adds the host's own arguments to a body: decodes `body`, and encodes it again with `arguments` after its own. No code of scripts runs.
int clua_add_arguments(lua_State *L, const clua_parcel *body, const clua_item *arguments, size_t count, clua_parcel *result,
                       clua_failure *failure);

#endif
