// Settings, and what becomes of user data.
#include "check.h"

// The output that a sink has received.
struct output {
  pthread_mutex_t lock;
  char text[1000];
  atomic_int destroyed;
};

static void collect(void *user_data, const char *bytes, size_t length) {
  struct output *output = user_data;
  pthread_mutex_lock(&output->lock);
  size_t used = strlen(output->text);
  if (used + length < sizeof output->text) memcpy(output->text + used, bytes, length);
  pthread_mutex_unlock(&output->lock);
}

static void destroy_output(void *user_data) { atomic_fetch_add(&((struct output *)user_data)->destroyed, 1); }

static bool load(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data;
  const char *name = opscript_value_get_string(opscript_list_get(arguments, 0), NULL);
  if (strcmp(name, "answer") == 0) return opscript_list_add_string(results, "return 42", OPSCRIPT_TEXT);
  if (strcmp(name, "binary") == 0) return opscript_list_add_string(results, "\xff", 1);
  if (strcmp(name, "broken") == 0) {
    opscript_list_add_string(results, "the disk is broken", OPSCRIPT_TEXT);
    return false;
  }
  return true;
}

static opscript_value *evaluate(opscript_runtime *runtime, const char *source) {
  return opscript_evaluate(runtime, source, OPSCRIPT_TEXT, NULL, NULL, NULL);
}

void test_configurations(void) {
  static struct output output = {.lock = PTHREAD_MUTEX_INITIALIZER}, errors = {.lock = PTHREAD_MUTEX_INITIALIZER};
  static atomic_int loader_destroyed;
  const char *paths[] = {"/nowhere/?.lua", "/nowhere/else/?.lua"};
  opscript_configuration *configuration = opscript_configuration_new();
  opscript_configuration_set_workers(configuration, 2);
  opscript_configuration_set_idle_time(configuration, INFINITY);
  opscript_configuration_set_idle_time(configuration, 0.5);
  opscript_configuration_set_state_memory_limit(configuration, 64 << 20);
  opscript_configuration_set_operation_memory_limit(configuration, SIZE_MAX);
  opscript_configuration_set_operation_memory_limit(configuration, 1 << 20);
  opscript_configuration_set_host_adds_operations(configuration, true);
  opscript_configuration_set_ignores_environment(configuration, true);
  opscript_configuration_set_output(configuration, collect, &errors, destroy_output);
  // A setting that is replaced is destroyed.
  opscript_configuration_set_output(configuration, collect, &output, destroy_output);
  CHECK(atomic_load(&errors.destroyed) == 1);
  opscript_configuration_set_error_output(configuration, collect, &errors, destroy_output);
  opscript_configuration_set_module_paths(configuration, paths, 2);
  opscript_configuration_set_c_module_paths(configuration, NULL, 0);
  opscript_configuration_set_module_loader(configuration, load, &loader_destroyed, count_up);
  opscript_configuration_set_prelude(configuration, "greeting = 'hello'", OPSCRIPT_TEXT);
  opscript_configuration_set_random_seed(configuration, 7);
  opscript_error *error = NULL;
  opscript_runtime *runtime = opscript_runtime_new(configuration, &error), *other = opscript_runtime_new(configuration, &error);
  opscript_configuration_free(configuration);
  CHECK(runtime != NULL && other != NULL && error == NULL);

  opscript_list_free(opscript_run(runtime, "print(greeting) io.stderr:write('oh')", OPSCRIPT_TEXT, NULL, NULL, NULL));
  CHECK(strcmp(output.text, "hello\n") == 0 && strcmp(errors.text, "oh") == 0);
  CHECK(was(evaluate(runtime, "package.path"), "\"/nowhere/?.lua;/nowhere/else/?.lua\"") && was(evaluate(runtime, "package.cpath"), "\"\""));
  CHECK(was(evaluate(runtime, "require 'answer'"), "42"));
  CHECK(was(evaluate(runtime, "(select(2, pcall(require, 'broken')):match 'the disk is broken')"), "\"the disk is broken\""));
  CHECK(was(evaluate(runtime, "(select(2, pcall(require, 'binary')):match 'UTF.8 text')"), "\"UTF-8 text\""));
  CHECK(was(evaluate(runtime, "pcall(require, 'nothing')"), "false"));
  opscript_value *random = evaluate(runtime, "math.random(1000000)"), *same = evaluate(other, "math.random(1000000)");
  CHECK(random != NULL && opscript_value_equal(random, same));
  opscript_value_free(random);
  opscript_value_free(same);
  CHECK_ERROR(opscript_evaluate(runtime, "('x'):rep(1 << 30)", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_MEMORY, "not enough memory");
  CHECK(opscript_runtime_free(runtime));
  CHECK(atomic_load(&output.destroyed) == 0);
  CHECK(opscript_runtime_free(other));
  CHECK(atomic_load(&output.destroyed) == 1 && atomic_load(&errors.destroyed) == 2 && atomic_load(&loader_destroyed) == 1);

  // Untrusted scripts.
  configuration = opscript_configuration_new();
  opscript_configuration_set_untrusted(configuration);
  opscript_configuration_set_limit(configuration, OPSCRIPT_RUN_SECONDS, INFINITY);
  opscript_configuration_set_limit(configuration, OPSCRIPT_RUN_INSTRUCTIONS, 100000);
  runtime = opscript_runtime_new(configuration, &error);
  opscript_configuration_free(configuration);
  CHECK(was(evaluate(runtime, "io == nil and debug == nil and 1"), "1"));
  CHECK_ERROR(opscript_run(runtime, "while true do end", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_INSTRUCTIONS, "instruction");
  CHECK(opscript_runtime_free(runtime));
  configuration = opscript_configuration_new();
  opscript_configuration_set_limit(configuration, OPSCRIPT_RUN_SECONDS, 0.02);
  opscript_configuration_set_limit(configuration, OPSCRIPT_TIMERS, 1e300);
  runtime = opscript_runtime_new(configuration, &error);
  opscript_configuration_free(configuration);
  CHECK_ERROR(opscript_run(runtime, "while true do end", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_TIME, "time");
  CHECK(opscript_runtime_free(runtime));
  for (int limit = -1; limit <= OPSCRIPT_MEMORY_BYTES + 1; limit += OPSCRIPT_MEMORY_BYTES + 2) {
    configuration = opscript_configuration_new();
    opscript_configuration_set_limit(configuration, (opscript_limit)limit, 1);
    CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "there is no limit with the number");
    opscript_configuration_free(configuration);
  }
  configuration = opscript_configuration_new();
  opscript_configuration_set_limit(configuration, OPSCRIPT_TIMERS, NAN);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "a limit is nan");
  opscript_configuration_free(configuration);

  // The first bad setting is reported.
  configuration = opscript_configuration_new();
  opscript_configuration_set_workers(configuration, -1);
  opscript_configuration_set_idle_time(configuration, NAN);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "number of workers is -1");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_idle_time(configuration, -1);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "idle time is -1");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_module_paths(configuration, NULL, 1);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "list of paths is NULL");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_prelude(configuration, "x =", OPSCRIPT_TEXT);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_SYNTAX, "unexpected symbol");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_state_memory_limit(configuration, 100);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_RUNTIME, "a stateMemoryLimit of 100 bytes is too little");
  opscript_configuration_free(configuration);
}

// Functions of operations run in other processes.
void test_processes(void) {
  opscript_error *error = NULL;
  static const char result_of[] =
    "function resultOf(f) local op = opscript.OperationQueue.new():addOperation(f) op:waitUntilFinished() return op.result end";
  opscript_configuration *configuration = opscript_configuration_new();
  opscript_configuration_set_worker_processes(configuration, NULL);
  opscript_runtime *runtime = opscript_runtime_new(configuration, &error);
  CHECK(runtime != NULL && error == NULL);
  opscript_list_free(opscript_run(runtime, result_of, OPSCRIPT_TEXT, NULL, NULL, NULL));
  opscript_list_free(
    opscript_run(runtime, "function process() return io.open('/proc/self/stat'):read('n') end", OPSCRIPT_TEXT, NULL, NULL, NULL));
  CHECK(was(evaluate(runtime, "math.type(resultOf(process))"), "\"integer\""));
  CHECK(was(evaluate(runtime, "resultOf(process) == process()"), "false"));
  CHECK(opscript_runtime_free(runtime));
  opscript_configuration_set_untrusted(configuration);
  runtime = opscript_runtime_new(configuration, &error);
  opscript_list_free(opscript_run(runtime, result_of, OPSCRIPT_TEXT, NULL, NULL, NULL));
  CHECK(was(evaluate(runtime, "resultOf(function() return 6 * 7 end)"), "42"));
  CHECK(opscript_runtime_free(runtime));
  opscript_configuration_set_worker_processes(configuration, "/nowhere/opscript-worker");
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_RUNTIME, "the worker executable '/nowhere/opscript-worker'");
  opscript_configuration_free(configuration);
}
