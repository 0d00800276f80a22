// Operations and queues.
#include "check.h"

// A body that waits until it is cancelled.
struct wait {
  atomic_bool has_begun;
  pthread_mutex_t lock;
  pthread_cond_t changed;
};

static opscript_operation *lua(opscript_runtime *runtime, const char *source, const opscript_list *arguments) {
  opscript_error *error = NULL;
  opscript_function *function = opscript_function_new(runtime, source, OPSCRIPT_TEXT, "=body", NULL, &error);
  CHECK(function != NULL);
  opscript_operation *operation = opscript_operation_new(function, arguments, &error);
  opscript_function_free(function);
  CHECK(operation != NULL);
  return operation;
}

static bool add(void *user_data, const opscript_operation *operation, opscript_list *results) {
  CHECK(opscript_operation_get_state(operation) == OPSCRIPT_EXECUTING && !opscript_operation_is_cancelled(operation));
  opscript_list_add_integer(results, 40 + *(int *)user_data);
  return opscript_list_add_nil(results);
}

static bool refuse(void *user_data, const opscript_operation *operation, opscript_list *results) {
  (void)user_data;
  (void)operation;
  opscript_list_add_string(results, "the body has failed", OPSCRIPT_TEXT);
  return false;
}

// Calls the runtime that runs it, which is an error.
static bool misuse(void *runtime, const opscript_operation *operation, opscript_list *results) {
  (void)operation;
  CHECK_ERROR(opscript_evaluate(runtime, "1", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_MISUSE, "an operation calls the runtime");
  CHECK_ERROR(opscript_runtime_close(runtime, 1, &error), OPSCRIPT_MISUSE, "an operation closes the runtime");
  CHECK(!opscript_runtime_free(runtime));
  return opscript_list_add_boolean(results, true);
}

// Tells that the body that calls it has begun.
static bool begin(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)arguments;
  (void)results;
  count_up(user_data);
  return true;
}

static bool until_cancelled(void *user_data, const opscript_operation *operation, opscript_list *results) {
  (void)results;
  struct wait *wait = user_data;
  pthread_mutex_lock(&wait->lock);
  atomic_store(&wait->has_begun, true);
  pthread_cond_broadcast(&wait->changed);
  while (!opscript_operation_is_cancelled(operation)) pthread_cond_wait(&wait->changed, &wait->lock);
  pthread_mutex_unlock(&wait->lock);
  return true;
}

void test_operations(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  static atomic_int destroyed, completed;
  int two = 2;
  opscript_queue *queue = opscript_queue_new(runtime, &error);
  opscript_list *arguments = opscript_list_new();
  opscript_list_add_integer(arguments, 21);
  opscript_operation *doubled = lua(runtime, "return function(operation, n) return n * 2, operation.name end", arguments);
  opscript_operation *added = opscript_operation_new_body(add, &two, NULL, &error);
  opscript_operation *failing = opscript_operation_new_body(refuse, &destroyed, count_up, &error);
  opscript_operation_set_name(doubled, "doubled");
  char *name = opscript_operation_get_name(doubled);
  CHECK(strcmp(name, "doubled") == 0 && opscript_operation_get_name(added) == NULL);
  opscript_string_free(name);
  CHECK(opscript_operation_add_dependency(added, doubled, &error) && opscript_operation_add_dependency(failing, added, &error));
  CHECK_ERROR(opscript_operation_add_dependency(doubled, failing, &error), OPSCRIPT_MISUSE, "dependency cycle");
  CHECK(opscript_operation_set_completion(added, count_up, &completed, NULL, &error));
  CHECK(opscript_operation_set_completion(failing, count_up, &completed, count_up, &error));
  // A completion that is replaced is destroyed.
  CHECK(opscript_operation_set_completion(failing, NULL, NULL, NULL, &error) && atomic_load(&completed) == 1);
  CHECK(opscript_operation_get_state(added) == OPSCRIPT_WAITING && opscript_operation_get_error(added) == NULL);
  CHECK_ERROR(opscript_operation_wait(added, -1, &error), OPSCRIPT_MISUSE, "deadline is -1");
  CHECK(opscript_queue_add(queue, failing, &error) && opscript_queue_add(queue, added, &error) && opscript_queue_add(queue, doubled, &error));
  CHECK_ERROR(opscript_queue_add(queue, doubled, &error), OPSCRIPT_MISUSE, "cannot be added");
  CHECK(opscript_queue_wait(queue, INFINITY, &error) && opscript_queue_count(queue) == 0);
  CHECK(opscript_operation_wait(failing, 60, &error) && opscript_operation_get_state(failing) == OPSCRIPT_FAILED);
  opscript_list *results = opscript_results(runtime, doubled, INFINITY, &error);
  CHECK(opscript_list_count(results) == 2 && is(opscript_list_get(results, 0), "42") && is(opscript_list_get(results, 1), "\"doubled\""));
  opscript_list_free(results);
  results = opscript_results(runtime, added, 60, &error);
  CHECK(opscript_list_count(results) == 2 && is(opscript_list_get(results, 0), "42") && reaches(&completed, 2));
  opscript_list_free(results);
  CHECK_ERROR(opscript_results(runtime, failing, 60, &error), OPSCRIPT_RUNTIME, "the body has failed");
  CHECK_ERROR(opscript_operation_set_completion(added, count_up, &completed, NULL, &error), OPSCRIPT_MISUSE, "completion block");
  error = opscript_operation_get_error(failing);
  CHECK(strcmp(opscript_error_message(error), "the body has failed") == 0);
  opscript_error_free(error);
  opscript_operation_free(failing);
  CHECK(reaches(&destroyed, 1));

  // The same operation in Lua and in C.
  opscript_value *value = opscript_value_new_operation(added);
  opscript_operation *same = opscript_value_get_operation(value), *copy = opscript_operation_copy(same);
  CHECK(opscript_value_get_type(value) == OPSCRIPT_OPERATION && opscript_operation_equal(same, added) && opscript_operation_equal(copy, added));
  CHECK(!opscript_operation_equal(doubled, added));
  opscript_list *list = opscript_list_new();
  CHECK(opscript_list_add_operation(list, doubled));
  CHECK(was(opscript_evaluate(runtime, "(...).result", OPSCRIPT_TEXT, NULL, list, &error), "42"));
  opscript_list_free(list);
  opscript_operation_free(copy);
  opscript_operation_free(same);
  opscript_value_free(value);

  opscript_operation *raising = lua(runtime, "return function() error 'oh no' end", NULL);
  static atomic_int begun;
  CHECK(opscript_register(runtime, "begin", begin, &begun, NULL, &error));
  opscript_operation *endless = lua(runtime, "return function() begin() while true do end end", NULL);
  opscript_operation *misusing = opscript_operation_new_body(misuse, runtime, NULL, &error);
  CHECK(opscript_queue_add(queue, raising, &error) && opscript_queue_add(queue, endless, &error) && opscript_queue_add(queue, misusing, &error));
  CHECK(opscript_results(runtime, raising, INFINITY, &error) == NULL && opscript_error_get_kind(error) == OPSCRIPT_RUNTIME);
  CHECK(strstr(opscript_error_report(error), "stack traceback:") != NULL);
  opscript_error_free(error);
  error = NULL;
  CHECK(was_list(opscript_results(runtime, misusing, INFINITY, &error), "true"));
  CHECK_ERROR(opscript_operation_wait(endless, 0.001, &error), OPSCRIPT_TIMED_OUT, "the time was over");
  CHECK_ERROR(opscript_queue_wait(queue, 0, &error), OPSCRIPT_TIMED_OUT, "the time was over");
  CHECK_ERROR(opscript_results(runtime, endless, 0.001, &error), OPSCRIPT_TIMED_OUT, "the time was over");
  CHECK(reaches(&begun, 1));
  opscript_operation_interrupt(endless);
  CHECK_ERROR(opscript_results(runtime, endless, INFINITY, &error), OPSCRIPT_INTERRUPTED, "interrupted");

  struct wait wait = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  opscript_operation *waiting = opscript_operation_new_body(until_cancelled, &wait, NULL, &error);
  CHECK(opscript_queue_add(queue, waiting, &error));
  pthread_mutex_lock(&wait.lock);
  while (!atomic_load(&wait.has_begun)) pthread_cond_wait(&wait.changed, &wait.lock);
  opscript_operation_cancel(waiting);
  pthread_cond_broadcast(&wait.changed);
  pthread_mutex_unlock(&wait.lock);
  CHECK_ERROR(opscript_results(runtime, waiting, INFINITY, &error), OPSCRIPT_CANCELLED, "was cancelled");
  CHECK(opscript_operation_get_state(waiting) == OPSCRIPT_WAS_CANCELLED && opscript_operation_is_cancelled(waiting));
  opscript_operation_interrupt(waiting);

  CHECK_ERROR(opscript_function_new(runtime, "return 1", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "must return one function");
  CHECK_ERROR(
    opscript_function_new(
      runtime, "local c = coroutine.create(print) return function() return c end", OPSCRIPT_TEXT, NULL, NULL, &error),
    OPSCRIPT_NOT_SENDABLE, "c");
  CHECK_ERROR(opscript_operation_new_body(NULL, &destroyed, count_up, &error), OPSCRIPT_MISUSE, "body is NULL");
  CHECK(atomic_load(&destroyed) == 2);
  opscript_operation_free(waiting);
  opscript_operation_free(misusing);
  opscript_operation_free(endless);
  opscript_operation_free(raising);
  opscript_operation_free(added);
  opscript_operation_free(doubled);
  opscript_list_free(arguments);
  opscript_queue_free(queue);
}

void test_queues(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_queue *queue = opscript_queue_new(runtime, &error);
  opscript_queue_set_name(queue, "work");
  char *name = opscript_queue_get_name(queue);
  CHECK(strcmp(name, "work") == 0);
  opscript_string_free(name);
  CHECK(opscript_queue_get_maximum(queue) == -1 && opscript_queue_set_maximum(queue, 1, &error) && opscript_queue_get_maximum(queue) == 1);
  CHECK_ERROR(opscript_queue_set_maximum(queue, -2, &error), OPSCRIPT_MISUSE, "cannot be -2");
  opscript_queue_set_suspended(queue, true);
  CHECK(opscript_queue_is_suspended(queue));
  opscript_operation *all[3];
  for (int i = 0; i < 3; i++) {
    all[i] = lua(runtime, "return function() end", NULL);
    CHECK(opscript_queue_add(queue, all[i], &error));
  }
  CHECK(opscript_queue_count(queue) == 3 && opscript_unfinished_count(runtime) == 3);
  opscript_list *stuck = opscript_finish(runtime, &error);
  CHECK(opscript_list_count(stuck) == 3);
  opscript_list_free(stuck);
  opscript_operation_cancel(all[0]);
  opscript_queue_cancel_all(queue);
  opscript_queue_set_suspended(queue, false);
  CHECK(opscript_queue_wait(queue, INFINITY, &error) && !opscript_queue_is_suspended(queue));
  for (int i = 0; i < 3; i++) {
    CHECK(opscript_operation_get_state(all[i]) == OPSCRIPT_WAS_CANCELLED);
    opscript_operation_free(all[i]);
  }
  opscript_value *value = opscript_value_new_queue(queue);
  opscript_queue *same = opscript_value_get_queue(value);
  CHECK(opscript_value_get_type(value) == OPSCRIPT_QUEUE && same != NULL && opscript_queue_get_maximum(same) == 1);
  CHECK(opscript_set_global(runtime, "queue", value, &error));
  CHECK(was(opscript_evaluate(runtime, "queue.name", OPSCRIPT_TEXT, NULL, NULL, &error), "\"work\""));
  opscript_queue_free(same);
  opscript_value_free(value);
  opscript_queue_set_name(queue, NULL);
  opscript_queue_free(queue);
}
