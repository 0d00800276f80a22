/* opscript.h: runs Lua scripts whose operations use all processors, inside a program in C or in a language that can call C.

   A program makes a runtime, runs scripts in it, and frees it:

     opscript_error *error = NULL;
     opscript_runtime *runtime = opscript_runtime_new(NULL, &error);
     opscript_value *sum = opscript_evaluate(runtime, "1 + 1", OPSCRIPT_TEXT, NULL, NULL, &error);
     if (sum == NULL) fprintf(stderr, "%s\n", opscript_error_report(error));
     opscript_value_free(sum);
     opscript_error_free(error);
     opscript_runtime_free(runtime);

   These rules hold for every function:

   Ownership. A pointer to a const object is borrowed; its comment says how long it is valid. Any other object that a function returns
   belongs to the caller, who frees it with the function for its type. Arguments stay the caller's: a function that keeps one copies it.
   Objects may be freed in any order, the runtime first or last. Freeing NULL does nothing.

   Errors. A function with the parameter `error` returns NULL or false when it fails. If `error` is not NULL, the function then stores a new
   error there; it stores nothing otherwise. A call that a caller should not make, such as one with NULL where an object is needed, is an error
   of the kind OPSCRIPT_MISUSE and has no other effect. Functions without that parameter accept NULL, and return 0, false or NULL for it. No
   function of the library throws or jumps, and a callback must not leave with longjmp or a C++ exception either.

   Threads. A runtime has a main state, which runs scripts and belongs to no thread. Functions marked "Enters" enter it: one thread at a time
   may be inside, and different threads may take turns. If another thread is inside, or an operation's own thread enters, the call is an error
   of the kind OPSCRIPT_MISUSE, since it may be a data race of the program: guard the runtime with a lock. (The Swift API ends the process
   instead.) A host function that the thread inside calls may enter again. Functions marked "Any thread" may be called at any time, also by
   callbacks and while another thread is inside. Values, lists, errors and configurations are used by one thread at a time. Different
   runtimes are independent.

   Texts. Names, paths and messages are UTF-8 and end with a zero. Where a length is given, OPSCRIPT_TEXT stands for the length up to the
   first zero. Lua strings may have any bytes; Lua source must be UTF-8.

   User data. A callback gets the pointer `user_data` that was given with it. `destroy`, if not NULL, is called with that pointer once, on any
   thread, when the callback will never be called again, also if the function that takes both fails. `destroy` must not enter the runtime.

   Times are in seconds. INFINITY means no limit. NaN and negative times are misuse.

   After fork, the child must not use the runtimes of its parent. The library cannot be unloaded. */
#ifndef OPSCRIPT_H
#define OPSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version ----------------------------------------------------------------------------------------------------------- */
/* The version of this header. Minor versions below 1.0 may change the interface, and so the name of the library. */
#define OPSCRIPT_VERSION_MAJOR 0
#define OPSCRIPT_VERSION_MINOR 2
#define OPSCRIPT_VERSION_PATCH 0
#define OPSCRIPT_VERSION_NUMBER (OPSCRIPT_VERSION_MAJOR * 1000000 + OPSCRIPT_VERSION_MINOR * 1000 + OPSCRIPT_VERSION_PATCH)
#define OPSCRIPT_VERSION "0.2.0"

/* The version of the library that the program runs with, as OPSCRIPT_VERSION_NUMBER. Any thread. */
int opscript_version_number(void);

/* The same as text, which is valid for ever. Any thread. */
const char *opscript_version(void);

/* Objects ----------------------------------------------------------------------------------------------------------- */
/* A length: up to the first zero. */
#define OPSCRIPT_TEXT ((size_t)-1)

/* The settings of runtimes. */
typedef struct opscript_configuration opscript_configuration;
/* A main Lua state, and workers that run operations. */
typedef struct opscript_runtime opscript_runtime;
/* An error: its kind, its message, and its place. */
typedef struct opscript_error opscript_error;
/* A Lua value: a copy, which belongs to no runtime and outlives all of them. */
typedef struct opscript_value opscript_value;
/* Any number of values: the arguments or the results of a call. */
typedef struct opscript_list opscript_list;
/* A Lua function, copied together with its captured values. */
typedef struct opscript_function opscript_function;
/* A reference to an operation: work that a thread of a runtime does once. */
typedef struct opscript_operation opscript_operation;
/* The functions and properties of objects of the program. */
typedef struct opscript_class opscript_class;
/* A reference to a queue, which starts the operations that are added to it. */
typedef struct opscript_queue opscript_queue;

/* Releases user data. */
typedef void (*opscript_destructor)(void *user_data);

/* A function of the program that scripts call. Adds its results to `results` and returns true. If it returns false, the call raises an
   error in the script, whose message is the first result. `arguments` and `results` are valid during the call. The thread of the calling
   state calls it, so operations may call it on several threads at once. */
typedef bool (*opscript_host_function)(void *user_data, const opscript_list *arguments, opscript_list *results);

/* A function of the program that is the body of an operation. Otherwise like opscript_host_function. `operation` is valid during the
   call. A long body checks the operation's state, and returns when it is cancelled. */
typedef bool (*opscript_body)(void *user_data, const opscript_operation *operation, opscript_list *results);

/* Takes the output of one call in a script. The bytes are valid during the call. Several threads may call the sink at once. */
typedef void (*opscript_sink)(void *user_data, const char *bytes, size_t length);

/* Is called after an event. */
typedef void (*opscript_notice)(void *user_data);

/* Errors ------------------------------------------------------------------------------------------------------------ */
typedef enum opscript_error_kind {
  OPSCRIPT_NO_ERROR = 0,
  OPSCRIPT_SYNTAX,       /* the source is no valid Lua */
  OPSCRIPT_RUNTIME,      /* the script raised an error, or did something that the runtime refuses */
  OPSCRIPT_MEMORY,       /* it needed more memory than there is, or than it may use */
  OPSCRIPT_TIME,         /* it ran longer than it may */
  OPSCRIPT_INSTRUCTIONS, /* it needed more instructions than it may use */
  OPSCRIPT_INTERRUPTED,  /* the host or a signal has ended it */
  OPSCRIPT_NOT_SENDABLE, /* a function or a value cannot be copied to another Lua state */
  OPSCRIPT_CONVERSION,   /* a value does not have the type that was asked for */
  OPSCRIPT_DEPENDENCY,   /* an operation needs the result of one that failed or was cancelled */
  OPSCRIPT_CANCELLED,    /* the operation was cancelled, so there are no results */
  OPSCRIPT_TIMED_OUT,    /* the time of the wait was over; nothing else has failed */
  OPSCRIPT_CONDITION,    /* an operation was cancelled, because a condition of it does not hold */
  OPSCRIPT_MISUSE        /* the program has called a function that it should not have called, or with the wrong arguments */
} opscript_error_kind;

/* The kind of the error; OPSCRIPT_NO_ERROR for NULL. */
opscript_error_kind opscript_error_get_kind(const opscript_error *error);
/* The message, valid as long as the error. A zero in it is shown as `\0`. */
const char *opscript_error_message(const opscript_error *error);
/* The stack at the raise, starting with `stack traceback:`; empty without one. Valid as long as the error. */
const char *opscript_error_traceback(const opscript_error *error);
/* For OPSCRIPT_CONVERSION, the way to the value as Lua would write it, such as `rows[3].price`; otherwise empty. Valid as long as the
   error. */
const char *opscript_error_path(const opscript_error *error);
/* Message and traceback, as the `lua` command shows them. Valid as long as the error. */
const char *opscript_error_report(const opscript_error *error);
/* Whether a syntax error is at the end of the source, so that more text could make it valid. */
bool opscript_error_is_incomplete(const opscript_error *error);
/* The value that the script has raised: usually the message, but a script may raise any value. Valid as long as the error. */
const opscript_value *opscript_error_value(const opscript_error *error);
void opscript_error_free(opscript_error *error);

/* Values ------------------------------------------------------------------------------------------------------------ */
typedef enum opscript_type {
  OPSCRIPT_NIL = 0,
  OPSCRIPT_BOOLEAN,
  OPSCRIPT_INTEGER,
  OPSCRIPT_NUMBER, /* a float */
  OPSCRIPT_STRING,
  OPSCRIPT_TABLE,
  OPSCRIPT_OPERATION,
  OPSCRIPT_QUEUE,
  OPSCRIPT_OTHER, /* a function, a thread or a userdata; passed to Lua again, it becomes nil */
  OPSCRIPT_OBJECT /* an object of the program */
} opscript_type;

/* New values. */
opscript_value *opscript_value_new_nil(void);
opscript_value *opscript_value_new_boolean(bool value);
opscript_value *opscript_value_new_integer(int64_t value);
opscript_value *opscript_value_new_number(double value);
/* NULL with the length 0 is the empty string. NULL with another length returns NULL. */
opscript_value *opscript_value_new_string(const char *bytes, size_t length);
/* An empty table, for an array as well. */
opscript_value *opscript_value_new_table(void);
/* NULL for NULL. */
opscript_value *opscript_value_new_operation(const opscript_operation *operation);
/* NULL for NULL. */
opscript_value *opscript_value_new_queue(const opscript_queue *queue);
/* A copy, whose tables are copied only when one of the two changes. NULL for NULL. */
opscript_value *opscript_value_copy(const opscript_value *value);
void opscript_value_free(opscript_value *value);

/* The type of a value; OPSCRIPT_NIL for NULL. */
opscript_type opscript_value_get_type(const opscript_value *value);
/* Each stores the value and returns true, or returns false if the value has another type. They convert nothing, except that an integer
   is also a number. `result` may be NULL. */
bool opscript_value_get_boolean(const opscript_value *value, bool *result);
bool opscript_value_get_integer(const opscript_value *value, int64_t *result);
bool opscript_value_get_number(const opscript_value *value, double *result);
/* The bytes of a string, followed by a zero; NULL for another value. Valid as long as the value. `length` may be NULL. The first call copies
   the string. */
const char *opscript_value_get_string(const opscript_value *value, size_t *length);
/* A new reference to the operation or queue; NULL for another value. */
opscript_operation *opscript_value_get_operation(const opscript_value *value);
opscript_queue *opscript_value_get_queue(const opscript_value *value);
/* The value as Lua source, such as `{name = "thumbnail", sizes = {64, 128}}`. Valid until the next such call for this value. "nil" for
   NULL. */
const char *opscript_value_describe(const opscript_value *value);
/* Whether both have the same type and the same content. NULL is nil. */
bool opscript_value_equal(const opscript_value *left, const opscript_value *right);

/* Tables. The results of the first four functions are valid until the table is freed or changed. The first three return nil, never NULL, for
   a missing value, and for each value of a value that is no table. */

/* The value at a key. */
const opscript_value *opscript_value_get(const opscript_value *table, const opscript_value *key);
/* The value at a name. */
const opscript_value *opscript_value_field(const opscript_value *table, const char *name);
/* The value at an index of an array, which begins with 1 as in Lua. */
const opscript_value *opscript_value_element(const opscript_value *table, int64_t index);
/* The value of the type `type` at the end of a path such as `rows[3].price`; the empty path leads to `root`. An integer also fits
   OPSCRIPT_NUMBER. For a value of another type, returns NULL and an error of the kind OPSCRIPT_CONVERSION with the path. */
const opscript_value *opscript_value_find(
  const opscript_value *root, const char *path, opscript_type type, opscript_error **error);
/* The number of fields of a table; 0 for another value. */
size_t opscript_value_count(const opscript_value *table);
/* All keys of a table: integers first, in ascending order, then strings in the order of their bytes, then the others. O(n log n). */
opscript_list *opscript_value_keys(const opscript_value *table);
/* Assigns a copy of `value`; NULL, nil and OPSCRIPT_OTHER remove the field. False if `table` is no table, for a key that is nil, NaN or
   OPSCRIPT_OTHER, and if tables would be nested more than 200 deep. */
bool opscript_value_set(opscript_value *table, const opscript_value *key, const opscript_value *value);
bool opscript_value_set_field(opscript_value *table, const char *name, const opscript_value *value);
/* Assigns a copy to the element after the last one. So nil and NULL change nothing. False as for opscript_value_set. O(1) for an array. */
bool opscript_value_append(opscript_value *table, const opscript_value *value);

/* Lists ------------------------------------------------------------------------------------------------------------- */
/* A new list without values. Where a list is an argument, NULL is the empty list. */
opscript_list *opscript_list_new(void);
size_t opscript_list_count(const opscript_list *list);
/* The value at an index, which begins with 0; nil, never NULL, beyond the end. Valid as long as the list. */
const opscript_value *opscript_list_get(const opscript_list *list, size_t index);
/* Each adds a value at the end. They return false for NULL, and for bytes that are NULL with a length other than 0. */
bool opscript_list_add(opscript_list *list, const opscript_value *value);
bool opscript_list_add_nil(opscript_list *list);
bool opscript_list_add_boolean(opscript_list *list, bool value);
bool opscript_list_add_integer(opscript_list *list, int64_t value);
bool opscript_list_add_number(opscript_list *list, double value);
bool opscript_list_add_string(opscript_list *list, const char *bytes, size_t length);
bool opscript_list_add_operation(opscript_list *list, const opscript_operation *operation);
void opscript_list_free(opscript_list *list);

/* Configurations ---------------------------------------------------------------------------------------------------- */
/* The default settings. opscript_runtime_new reports a setting that is out of range. */
opscript_configuration *opscript_configuration_new(void);
/* The maximum number of operations that run at once; 0, the default, for the number of processors that this process may use. */
void opscript_configuration_set_workers(opscript_configuration *configuration, int count);
/* How long a worker sleeps without work before its thread ends. The default is 10 s. */
void opscript_configuration_set_idle_time(opscript_configuration *configuration, double seconds);
/* The maximum number of bytes that one Lua state may hold, the main one or a worker's; 0, the default, for no limit. */
void opscript_configuration_set_state_memory_limit(opscript_configuration *configuration, size_t bytes);
/* The maximum number of bytes that an operation may add to its state if it sets no limit itself; 0, the default, for no limit. */
void opscript_configuration_set_operation_memory_limit(opscript_configuration *configuration, size_t bytes);
/* Whether threads of the program may add or finish operations while a script waits. If false, the default, a wait that nothing in the
   runtime can end is an error. */
void opscript_configuration_set_host_adds_operations(opscript_configuration *configuration, bool value);
/* Whether LUA_PATH and the related environment variables are ignored. The default is false. */
void opscript_configuration_set_ignores_environment(opscript_configuration *configuration, bool value);
/* Takes the output of scripts on stdout, in place of the process's stdout. */
void opscript_configuration_set_output(
  opscript_configuration *configuration, opscript_sink sink, void *user_data, opscript_destructor destroy);
/* Takes the output of scripts on stderr, warnings, and reports of callbacks that failed. */
void opscript_configuration_set_error_output(
  opscript_configuration *configuration, opscript_sink sink, void *user_data, opscript_destructor destroy);
/* The templates where `require` looks for modules in Lua, such as `/usr/share/app/?.lua`; with the count 0, nowhere. */
void opscript_configuration_set_module_paths(opscript_configuration *configuration, const char *const *paths, size_t count);
/* The same for modules in C. */
void opscript_configuration_set_c_module_paths(opscript_configuration *configuration, const char *const *paths, size_t count);
/* `require` calls the loader before it looks for files. The argument is the name of the module; the result is the source, or nothing if
   the module does not exist. The loader must return the same source each time. */
void opscript_configuration_set_module_loader(
  opscript_configuration *configuration, opscript_host_function loader, void *user_data, opscript_destructor destroy);
/* A script that runs in each Lua state before all others. */
void opscript_configuration_set_prelude(opscript_configuration *configuration, const char *source, size_t length);
/* The seed of `math.random` in each state. The default is a random one. */
void opscript_configuration_set_random_seed(opscript_configuration *configuration, uint64_t seed);

/* The limits of scripts. A *run* is one call that enters, with all operations, timers and callbacks that it causes. */
typedef enum opscript_limit {
  OPSCRIPT_OPERATION_SECONDS = 0, /* that an operation's function may run, waits included */
  OPSCRIPT_OPERATION_INSTRUCTIONS,
  OPSCRIPT_RUN_SECONDS,
  OPSCRIPT_RUN_INSTRUCTIONS,
  OPSCRIPT_VALUE_BYTES,   /* of the values that leave a Lua state at once */
  OPSCRIPT_STORED_VALUES, /* that one operation may store under names of the script's own */
  OPSCRIPT_OUTPUT_BYTES,  /* that all states together may print or write */
  OPSCRIPT_PROCESSES,     /* that may run at once */
  OPSCRIPT_OPERATIONS,    /* that scripts may start in the runtime's life */
  OPSCRIPT_QUEUE_LENGTH,  /* the unfinished operations in one queue */
  OPSCRIPT_QUEUES,        /* that scripts may make in the runtime's life */
  OPSCRIPT_TIMERS,        /* that may be pending */
  OPSCRIPT_CHANNEL_BYTES, /* of the values that wait in all channels */
  OPSCRIPT_MEMORY_BYTES   /* bytes that are kept for scripts outside of their Lua states */
} opscript_limit;

/* Sets a limit; INFINITY removes it. By default scripts have no limits. Code that exceeds time or instructions is stopped, and its error
   has the kind OPSCRIPT_TIME or OPSCRIPT_INSTRUCTIONS. If it exceeds another limit, the script gets an error that names the limit. */
void opscript_configuration_set_limit(opscript_configuration *configuration, opscript_limit limit, double value);
/* For scripts of authors that you do not trust: leaves only the language and functions that compute, sets all limits above except those
   of instructions, because time is limited, and limits each Lua state to 128 MB. Single limits may be set afterwards. */
void opscript_configuration_set_untrusted(opscript_configuration *configuration);
/* Runs the functions of operations in worker processes, one for each worker, instead of threads of this process. If such a process ends,
   only the operation that it runs fails. `executable` is the path of the installed command `opscript-worker`. With NULL,
   opscript_runtime_new looks for it beside this program and in PATH, and reports if it is missing. */
void opscript_configuration_set_worker_processes(opscript_configuration *configuration, const char *executable);
/* Keeps finished work in a folder, so that operations with `memoize`, `inputs` or `outputs` need not do it again, in this run or in a
   later one. Without a folder (NULL, the default), such operations are errors. The folder is made when the first work is recorded.
   Several processes may use it. A program that may write there decides the results of operations, so the folder must belong to your
   program. */
void opscript_configuration_set_store(opscript_configuration *configuration, const char *directory);
/* The number of bytes that the store may take on the disk; 0, the default, for 2 GB. The least recently used work is removed. */
void opscript_configuration_set_store_limit(opscript_configuration *configuration, size_t bytes);
/* The use of finished work. */
typedef enum opscript_store_mode {
  OPSCRIPT_STORE_NORMAL = 0, /* work that is done does not run */
  OPSCRIPT_STORE_DRY_RUN,    /* no operation that asks the store runs; one that would run finishes without results */
  OPSCRIPT_STORE_ALWAYS_RUN  /* all operations run and are recorded */
} opscript_store_mode;
void opscript_configuration_set_store_mode(opscript_configuration *configuration, opscript_store_mode mode);
/* Decisions about an operation that asks the store: it is skipped; it runs, or would in a dry run; it has run, and will run again. */
typedef enum opscript_decision { OPSCRIPT_SKIPPED = 0, OPSCRIPT_RUNS, OPSCRIPT_NOT_RECORDED } opscript_decision;
/* Is called with each decision. `name` is the operation's name, or else its first output, or the place of its function. `reason` tells
   why it runs or is not recorded, such as `input 'a.h' changed`; empty if it is skipped. The thread that runs the operation makes the
   call, so several calls may run at once. The operation and the texts are valid during the call. */
typedef void (*opscript_explainer)(
  void *user_data, const opscript_operation *operation, const char *name, opscript_decision decision, const char *reason);
/* With NULL, the default, no function is called. */
void opscript_configuration_set_store_explainer(
  opscript_configuration *configuration, opscript_explainer explainer, void *user_data, opscript_destructor destroy);
void opscript_configuration_free(opscript_configuration *configuration);

/* Runtimes ---------------------------------------------------------------------------------------------------------- */
/* Makes a runtime. `configuration` may be NULL for the default settings, and may be used again. Any thread. */
opscript_runtime *opscript_runtime_new(const opscript_configuration *configuration, opscript_error **error);
/* Cancels all operations and timers, stops the workers and closes all Lua states. Waits for bodies that run, and for a thread that is
   inside, but at most for `deadline`. Afterwards every call that enters fails with OPSCRIPT_MISUSE; another close does nothing.

   Returns the names of the operations that did not end, as strings: an empty list if all is well. If a thread is still inside after the
   deadline, the runtime is not closed, and the list names the call; close it again. NULL and an error if the calling thread is inside, or is
   that of an operation of this runtime. Any other thread. */
opscript_list *opscript_runtime_close(opscript_runtime *runtime, double deadline, opscript_error **error);
/* Closes the runtime with a deadline of 60 s unless it is closed, and frees it. If the calling thread is inside, or is that of an operation,
   or another thread does not leave, it frees nothing: call it again later. Returns whether the runtime was freed; true for NULL. No other
   thread may use `runtime` any more. */
bool opscript_runtime_free(opscript_runtime *runtime);

/* Runs a script with `arguments` as the values of `...`, and returns its results. `name` is its name in messages: `@` and a file name, or
   `=` and any text; NULL for `=script`. Enters. */
opscript_list *opscript_run(
  opscript_runtime *runtime, const char *source, size_t length, const char *name, const opscript_list *arguments,
  opscript_error **error);
/* Runs a file. Enters. */
opscript_list *opscript_run_file(
  opscript_runtime *runtime, const char *path, const opscript_list *arguments, opscript_error **error);
/* Evaluates an expression, or runs a script that returns a value. Returns the first value. Enters. */
opscript_value *opscript_evaluate(
  opscript_runtime *runtime, const char *source, size_t length, const char *name, const opscript_list *arguments,
  opscript_error **error);
/* Calls a function of the main state: a global, or a field of one such as `string.format`. Returns its results. Enters. */
opscript_list *opscript_call(
  opscript_runtime *runtime, const char *function, const opscript_list *arguments, opscript_error **error);
/* The value of a global of the main state. Enters. */
opscript_value *opscript_get_global(opscript_runtime *runtime, const char *name, opscript_error **error);
/* Assigns a global of the main state. Operations that read the global take a copy along. Enters. */
bool opscript_set_global(opscript_runtime *runtime, const char *name, const opscript_value *value, opscript_error **error);
/* Makes a function of the program a global function of every state. The runtime keeps it until it is closed. Enters. */
bool opscript_register(
  opscript_runtime *runtime, const char *name, opscript_host_function function, void *user_data, opscript_destructor destroy,
  opscript_error **error);

/* The kinds of members of a class. */
typedef enum opscript_member {
  OPSCRIPT_FUNCTION = 0, /* a function of the class table, such as `new` */
  OPSCRIPT_METHOD,       /* a method; its first argument is the object */
  OPSCRIPT_GETTER,       /* reads a property; its argument is the object */
  OPSCRIPT_SETTER,       /* assigns a property; its arguments are the object and the value. The property needs a getter. */
  OPSCRIPT_METAMETHOD    /* such as `__add` or `__tostring`; either operand may be the object */
} opscript_member;

/* A class without members. Messages name the class `name`. A global of this name has the class table. */
opscript_class *opscript_class_new(const char *name);
/* Adds a member. Call this before opscript_register_class. States call members on their threads, so several may call one at once. */
bool opscript_class_add(
  opscript_class *class_, opscript_member kind, const char *name, opscript_host_function function, void *user_data,
  opscript_destructor destroy, opscript_error **error);
/* Makes the class, with the members that it has now, known in every state of the runtime. A class may be registered in several runtimes.
   Enters. */
bool opscript_register_class(opscript_runtime *runtime, const opscript_class *class_, opscript_error **error);
/* A value that refers to an object of the program. `destroy` is called when nothing refers to the object any more, on any thread. */
opscript_value *opscript_value_new_object(const opscript_class *class_, void *object, opscript_destructor destroy);
/* The object of a value; NULL if the value is no object of that class. Valid as long as the value. */
void *opscript_value_object(const opscript_value *value, const opscript_class *class_);
void opscript_class_free(opscript_class *class_);

/* Runs the present work for the main state: callbacks, operations of the main queue, timers. Stops after `limit` of them (0 for no
   limit) or after `seconds`. `more`, which may be NULL, is set to whether work is left. Enters. */
bool opscript_drain(opscript_runtime *runtime, size_t limit, double seconds, bool *more, opscript_error **error);
/* A file descriptor that becomes readable when opscript_drain has work. It belongs to the runtime: do not read from it. -1 for NULL,
   when the runtime is closed, and without a free descriptor. Any thread. */
int opscript_wake_descriptor(const opscript_runtime *runtime);
/* Calls `wake` when opscript_drain has work; NULL for no call. The thread that causes the work makes the call, and may be inside. So
   `wake` must be cheap, and have the program call opscript_drain soon. Replaces and destroys an earlier `wake`. Any thread. False for NULL
   and for a closed runtime. */
bool opscript_set_wake(opscript_runtime *runtime, opscript_notice wake, void *user_data, opscript_destructor destroy);
/* Runs the remaining operations, callbacks and timers until all have ended. Returns one string for each error that no code has read: the
   report of an operation that failed, or the reason why one can never run. NULL and an error of the kind OPSCRIPT_INTERRUPTED if a
   signal ended the call. Enters. */
opscript_list *opscript_finish(opscript_runtime *runtime, opscript_error **error);
/* Cancels the operations in all queues of the runtime. Running bodies continue until they check for it. Any thread. */
void opscript_cancel_all(opscript_runtime *runtime);
/* The same, and stops the bodies in Lua that do not check for it. They fail with OPSCRIPT_INTERRUPTED. Any thread. */
void opscript_interrupt_all(opscript_runtime *runtime);
/* The number of operations that were added to queues and have not finished. Any thread. */
size_t opscript_unfinished_count(const opscript_runtime *runtime);

/* Operations -------------------------------------------------------------------------------------------------------- */
/* Runs a script that returns one function, and copies that function together with the present values of its captures. Parameters as in
   opscript_run. Enters. */
opscript_function *opscript_function_new(
  opscript_runtime *runtime, const char *source, size_t length, const char *name, const opscript_list *arguments,
  opscript_error **error);
void opscript_function_free(opscript_function *function);

/* Makes an operation that calls `function` with the operation and `arguments` on a thread of the function's runtime. It runs once, after it
   was added to a queue. Any thread. */
opscript_operation *opscript_operation_new(
  const opscript_function *function, const opscript_list *arguments, opscript_error **error);
/* Makes an operation that calls a function of the program. NULL and an error if `body` is NULL. Any thread. */
opscript_operation *opscript_operation_new_body(
  opscript_body body, void *user_data, opscript_destructor destroy, opscript_error **error);
/* Another reference to the same operation. NULL for NULL. Any thread. */
opscript_operation *opscript_operation_copy(const opscript_operation *operation);
/* Gives up a reference. An operation in a queue continues. Any thread. */
void opscript_operation_free(opscript_operation *operation);
/* Whether both refer to the same operation. Any thread. */
bool opscript_operation_equal(const opscript_operation *left, const opscript_operation *right);

/* The name in messages; NULL removes it. Any thread. */
void opscript_operation_set_name(opscript_operation *operation, const char *name);
/* The name; NULL without one. Owned by the caller: free it with opscript_string_free. Any thread. */
char *opscript_operation_get_name(const opscript_operation *operation);
void opscript_string_free(char *string);

/* Makes `operation` wait until `dependency` has finished with any outcome. A cycle is an error. Any thread. */
bool opscript_operation_add_dependency(
  opscript_operation *operation, const opscript_operation *dependency, opscript_error **error);
/* Calls `completion` once, on a thread of the runtime, when the operation has finished. An operation has one completion; NULL removes it.
   An error if the operation has finished. Any thread. */
bool opscript_operation_set_completion(
  opscript_operation *operation, opscript_notice completion, void *user_data, opscript_destructor destroy, opscript_error **error);
/* An operation that has not started finishes without running. A body that runs can check for the cancellation and return. Any thread. */
void opscript_operation_cancel(opscript_operation *operation);
/* Cancels the operation and stops a body in Lua that does not check for it. Any thread. */
void opscript_operation_interrupt(opscript_operation *operation);

typedef enum opscript_operation_state {
  OPSCRIPT_WAITING = 0, /* it has not started */
  OPSCRIPT_EXECUTING,
  OPSCRIPT_SUCCEEDED,
  OPSCRIPT_FAILED,
  OPSCRIPT_WAS_CANCELLED /* it was cancelled, and has finished */
} opscript_operation_state;

/* How far the operation is; OPSCRIPT_WAITING for NULL. Any thread. */
opscript_operation_state opscript_operation_get_state(const opscript_operation *operation);
/* Whether the operation was cancelled, even if it has not finished. Any thread. */
bool opscript_operation_is_cancelled(const opscript_operation *operation);
/* The error of an operation that has failed, or that was interrupted; NULL for others. Any thread. */
opscript_error *opscript_operation_get_error(const opscript_operation *operation);
/* Blocks the thread until the operation has finished, at most for `deadline`. Inside a runtime, the wait runs work for the main state.
   Outside it does not, so another thread must be inside or drain if the operation needs that work. False and an error of the kind
   OPSCRIPT_TIMED_OUT if the time is over. True also for an operation that has failed. Any thread. */
bool opscript_operation_wait(opscript_operation *operation, double deadline, opscript_error **error);
/* Waits inside the runtime until the operation has finished, at most for `deadline`, and runs work for the main state. Returns the
   results of the body; NULL and the error of an operation that failed or was cancelled. Enters. */
opscript_list *opscript_results(
  opscript_runtime *runtime, opscript_operation *operation, double deadline, opscript_error **error);

/* Queues ------------------------------------------------------------------------------------------------------------ */
/* A new queue of a runtime. Any thread. */
opscript_queue *opscript_queue_new(opscript_runtime *runtime, opscript_error **error);
/* The main queue, whose operations run in the main state: while a call inside waits, and in opscript_drain. Any thread. */
opscript_queue *opscript_queue_main(opscript_runtime *runtime, opscript_error **error);
/* Gives up a reference. The operations in the queue continue. Any thread. */
void opscript_queue_free(opscript_queue *queue);
/* The name in messages; NULL removes it. Any thread. */
void opscript_queue_set_name(opscript_queue *queue, const char *name);
/* The name; NULL without one. Free it with opscript_string_free. Any thread. */
char *opscript_queue_get_name(const opscript_queue *queue);
/* The maximum number of its operations that run at once: -1, the default, for as many as the runtime has workers. Other negative numbers are
   an error. Any thread. */
bool opscript_queue_set_maximum(opscript_queue *queue, int count, opscript_error **error);
/* The maximum; -1 for none. Any thread. */
int opscript_queue_get_maximum(const opscript_queue *queue);
/* While it is suspended, the queue starts no operation. Any thread. */
void opscript_queue_set_suspended(opscript_queue *queue, bool suspended);
bool opscript_queue_is_suspended(const opscript_queue *queue);
/* Adds an operation. An operation can be added only once. Any thread. */
bool opscript_queue_add(opscript_queue *queue, opscript_operation *operation, opscript_error **error);
/* The number of operations that have not finished. Any thread. */
size_t opscript_queue_count(const opscript_queue *queue);
/* Cancels all operations in the queue. Any thread. */
void opscript_queue_cancel_all(opscript_queue *queue);
/* Blocks the thread until the queue is empty. Otherwise like opscript_operation_wait. Any thread. */
bool opscript_queue_wait(opscript_queue *queue, double deadline, opscript_error **error);

#ifdef __cplusplus
}
#endif

#endif
