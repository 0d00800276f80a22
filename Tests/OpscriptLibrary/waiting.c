// Work that waits for the main state, threads that take turns, the end, and calls without objects.
#include "check.h"
#include <poll.h>

static bool is_readable(int descriptor, int milliseconds) {
  struct pollfd watched = {.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&watched, 1, milliseconds) == 1;
}

static opscript_value *evaluate(opscript_runtime *runtime, const char *source) {
  return opscript_evaluate(runtime, source, OPSCRIPT_TEXT, NULL, NULL, NULL);
}

static void run(opscript_runtime *runtime, const char *source) {
  opscript_list *results = opscript_run(runtime, source, OPSCRIPT_TEXT, NULL, NULL, NULL);
  CHECK(results != NULL);
  opscript_list_free(results);
}

void test_waiting(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  static atomic_int woken, destroyed;
  int descriptor = opscript_wake_descriptor(runtime);
  CHECK(descriptor >= 0 && opscript_set_wake(runtime, count_up, &woken, count_up));
  run(runtime, "drained = 0 for i = 1, 3 do opscript.OperationQueue.main:addOperation(function() drained = drained + 1 end) end");
  CHECK(is_readable(descriptor, -1) && atomic_load(&woken) > 0);
  bool more = false;
  CHECK(opscript_drain(runtime, 1, INFINITY, &more, &error) && more && was(opscript_get_global(runtime, "drained", &error), "1"));
  CHECK(opscript_drain(runtime, 0, 60, NULL, &error) && was(opscript_get_global(runtime, "drained", &error), "3"));
  CHECK(opscript_drain(runtime, SIZE_MAX, INFINITY, &more, &error) && !more);
  CHECK_ERROR(opscript_drain(runtime, 0, NAN, &more, &error), OPSCRIPT_MISUSE, "the time is nan");
  int woken_before = atomic_load(&woken);
  CHECK(opscript_set_wake(runtime, NULL, &destroyed, count_up) && atomic_load(&destroyed) == 1);
  CHECK(atomic_load(&woken) == woken_before + 1);

  opscript_queue *main_queue = opscript_queue_main(runtime, &error);
  opscript_function *function =
    opscript_function_new(runtime, "return function() return 1 end", OPSCRIPT_TEXT, NULL, NULL, &error);
  opscript_operation *operation = opscript_operation_new(function, NULL, &error);
  CHECK(opscript_queue_add(main_queue, operation, &error) && was_list(opscript_results(runtime, operation, 60, &error), "1"));
  opscript_operation_free(operation);
  opscript_function_free(function);
  opscript_queue_free(main_queue);

  run(runtime, "opscript.OperationQueue.new():addOperation(function() error 'unread' end)");
  opscript_list *problems = opscript_finish(runtime, &error);
  CHECK(opscript_list_count(problems) == 1);
  CHECK(strstr(opscript_value_get_string(opscript_list_get(problems, 0), NULL), "unread") != NULL);
  opscript_list_free(problems);
  run(runtime, "endless = opscript.OperationQueue.new():addOperation(function() while true do end end)");
  opscript_cancel_all(runtime);
  opscript_interrupt_all(runtime);
  CHECK(was(evaluate(runtime, "pcall(endless.waitUntilFinished, endless) and endless.isCancelled"), "true"));
}

// A thread that is inside until it may leave.
struct visit {
  opscript_runtime *runtime;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool is_inside, may_leave;
};

static bool stay(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)arguments;
  (void)results;
  struct visit *visit = user_data;
  pthread_mutex_lock(&visit->lock);
  visit->is_inside = true;
  pthread_cond_broadcast(&visit->changed);
  while (!visit->may_leave) pthread_cond_wait(&visit->changed, &visit->lock);
  pthread_mutex_unlock(&visit->lock);
  return true;
}

static void *be_inside(void *user_data) {
  run(((struct visit *)user_data)->runtime, "turn = (turn or 0) + 1 stay()");
  return NULL;
}

void test_threads(void) {
  opscript_error *error = NULL;
  struct visit visit = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  visit.runtime = opscript_runtime_new(NULL, &error);
  CHECK(opscript_register(visit.runtime, "stay", stay, &visit, NULL, &error));
  for (int turn = 1; turn <= 3; turn++) {
    pthread_t thread;
    visit.is_inside = visit.may_leave = false;
    pthread_create(&thread, NULL, be_inside, &visit);
    pthread_mutex_lock(&visit.lock);
    while (!visit.is_inside) pthread_cond_wait(&visit.changed, &visit.lock);
    pthread_mutex_unlock(&visit.lock);
    CHECK_ERROR(opscript_get_global(visit.runtime, "turn", &error), OPSCRIPT_MISUSE, "opscript_get_global: another thread is inside");
    CHECK_ERROR(opscript_drain(visit.runtime, 0, 0, NULL, &error), OPSCRIPT_MISUSE, "another thread is inside");
    // It is not closed, and the result names the call.
    CHECK(was_list(opscript_runtime_close(visit.runtime, 0, &error), "\"a call of opscript_run\""));
    CHECK(opscript_unfinished_count(visit.runtime) == 0 && opscript_wake_descriptor(visit.runtime) >= 0);
    pthread_mutex_lock(&visit.lock);
    visit.may_leave = true;
    pthread_cond_broadcast(&visit.changed);
    pthread_mutex_unlock(&visit.lock);
    pthread_join(thread, NULL);
    opscript_value *count = opscript_get_global(visit.runtime, "turn", &error);
    int64_t turns = 0;
    CHECK(opscript_value_get_integer(count, &turns) && turns == turn);
    opscript_value_free(count);
  }
  CHECK(opscript_runtime_free(visit.runtime));
}

void test_null(void) {
  CHECK_ERROR(opscript_run(NULL, "", 0, NULL, NULL, &error), OPSCRIPT_MISUSE, "opscript_run: runtime is NULL");
  CHECK_ERROR(opscript_run_file(NULL, "x", NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_evaluate(NULL, "", 0, NULL, NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_call(NULL, "print", NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_runtime_close(NULL, 1, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_drain(NULL, 0, 0, NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_finish(NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_results(NULL, NULL, 0, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_function_new(NULL, "", 0, NULL, NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_operation_new(NULL, NULL, &error), OPSCRIPT_MISUSE, "function is NULL");
  CHECK_ERROR(opscript_operation_add_dependency(NULL, NULL, &error), OPSCRIPT_MISUSE, "operation is NULL");
  CHECK_ERROR(opscript_operation_set_completion(NULL, NULL, NULL, NULL, &error), OPSCRIPT_MISUSE, "operation is NULL");
  CHECK_ERROR(opscript_operation_wait(NULL, 0, &error), OPSCRIPT_MISUSE, "operation is NULL");
  CHECK_ERROR(opscript_queue_new(NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_queue_main(NULL, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK_ERROR(opscript_queue_add(NULL, NULL, &error), OPSCRIPT_MISUSE, "queue is NULL");
  CHECK_ERROR(opscript_queue_set_maximum(NULL, 1, &error), OPSCRIPT_MISUSE, "queue is NULL");
  CHECK_ERROR(opscript_queue_wait(NULL, 0, &error), OPSCRIPT_MISUSE, "queue is NULL");
  CHECK_ERROR(opscript_value_find(NULL, "", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "root is NULL");
  // Without a place for the error.
  CHECK(opscript_run(NULL, NULL, 0, NULL, NULL, NULL) == NULL);

  CHECK(opscript_error_get_kind(NULL) == OPSCRIPT_NO_ERROR && opscript_error_message(NULL) == NULL && opscript_error_path(NULL) == NULL);
  CHECK(opscript_error_traceback(NULL) == NULL && opscript_error_report(NULL) == NULL && opscript_error_value(NULL) == NULL);
  CHECK(!opscript_error_is_incomplete(NULL) && opscript_value_get_type(NULL) == OPSCRIPT_NIL && is(NULL, "nil"));
  CHECK(!opscript_value_get_boolean(NULL, NULL) && !opscript_value_get_integer(NULL, NULL) && !opscript_value_get_number(NULL, NULL));
  CHECK(opscript_value_get_string(NULL, NULL) == NULL && opscript_value_copy(NULL) == NULL && opscript_value_equal(NULL, NULL));
  CHECK(opscript_value_new_operation(NULL) == NULL && opscript_value_new_queue(NULL) == NULL);
  CHECK(is(opscript_value_get(NULL, NULL), "nil") && is(opscript_value_field(NULL, "x"), "nil") && is(opscript_value_element(NULL, 1), "nil"));
  CHECK(opscript_value_count(NULL) == 0 && !opscript_value_set(NULL, NULL, NULL) && !opscript_value_set_field(NULL, "x", NULL));
  CHECK(!opscript_value_append(NULL, NULL) && opscript_list_count(NULL) == 0 && is(opscript_list_get(NULL, 0), "nil"));
  opscript_list *keys = opscript_value_keys(NULL);
  CHECK(opscript_list_count(keys) == 0);
  opscript_list_free(keys);
  CHECK(!opscript_list_add_nil(NULL) && !opscript_list_add_boolean(NULL, true) && !opscript_list_add_integer(NULL, 1));
  CHECK(!opscript_list_add_number(NULL, 1) && !opscript_list_add_string(NULL, "", 0));
  CHECK(opscript_wake_descriptor(NULL) == -1 && !opscript_set_wake(NULL, NULL, NULL, NULL) && opscript_unfinished_count(NULL) == 0);
  CHECK(opscript_operation_get_name(NULL) == NULL && opscript_operation_get_error(NULL) == NULL && opscript_operation_copy(NULL) == NULL);
  CHECK(opscript_operation_get_state(NULL) == OPSCRIPT_WAITING && !opscript_operation_is_cancelled(NULL));
  CHECK(opscript_operation_equal(NULL, NULL) && opscript_queue_get_name(NULL) == NULL && opscript_queue_get_maximum(NULL) == -1);
  CHECK(!opscript_queue_is_suspended(NULL) && opscript_queue_count(NULL) == 0 && opscript_runtime_free(NULL));
  opscript_cancel_all(NULL);
  opscript_interrupt_all(NULL);
  opscript_operation_set_name(NULL, "x");
  opscript_operation_cancel(NULL);
  opscript_operation_interrupt(NULL);
  opscript_queue_set_name(NULL, "x");
  opscript_queue_set_suspended(NULL, true);
  opscript_queue_cancel_all(NULL);
  opscript_configuration_set_workers(NULL, 1);
  opscript_configuration_set_output(NULL, NULL, NULL, NULL);
  opscript_error_free(NULL);
  opscript_value_free(NULL);
  opscript_list_free(NULL);
  opscript_configuration_free(NULL);
  opscript_function_free(NULL);
  opscript_operation_free(NULL);
  opscript_queue_free(NULL);
  opscript_string_free(NULL);
}

void test_closed(void) {
  opscript_error *error = NULL;
  static atomic_int destroyed;
  opscript_runtime *runtime = opscript_runtime_new(NULL, &error);
  opscript_value *table = evaluate(runtime, "{ a = { 1 } }");
  opscript_function *function = opscript_function_new(runtime, "return function() end", OPSCRIPT_TEXT, NULL, NULL, &error);
  opscript_operation *operation = opscript_operation_new(function, NULL, &error);
  opscript_queue *queue = opscript_queue_new(runtime, &error);
  CHECK_ERROR(opscript_runtime_close(runtime, NAN, &error), OPSCRIPT_MISUSE, "deadline is nan");
  opscript_list *left = opscript_runtime_close(runtime, INFINITY, &error);
  CHECK(left != NULL && opscript_list_count(left) == 0);
  opscript_list_free(left);
  left = opscript_runtime_close(runtime, 0, &error);
  CHECK(left != NULL && opscript_list_count(left) == 0);
  opscript_list_free(left);
  CHECK_ERROR(opscript_run(runtime, "", 0, NULL, NULL, &error), OPSCRIPT_MISUSE, "opscript_run: the runtime is closed");
  CHECK_ERROR(opscript_queue_new(runtime, &error), OPSCRIPT_MISUSE, "the runtime is closed");
  CHECK_ERROR(opscript_results(runtime, operation, 0, &error), OPSCRIPT_MISUSE, "the runtime is closed");
  CHECK_ERROR(opscript_register(runtime, "x", stay, &destroyed, count_up, &error), OPSCRIPT_MISUSE, "the runtime is closed");
  CHECK(opscript_wake_descriptor(runtime) == -1 && !opscript_set_wake(runtime, count_up, &destroyed, count_up));
  CHECK(atomic_load(&destroyed) == 2);
  opscript_cancel_all(runtime);
  opscript_interrupt_all(runtime);
  CHECK(opscript_runtime_free(runtime));
  // Its values are still valid.
  CHECK_ERROR(opscript_queue_add(queue, operation, &error), OPSCRIPT_RUNTIME, "the engine was shut down");
  CHECK(is(table, "{a = {1}}") && opscript_queue_count(queue) == 0);
  opscript_queue_free(queue);
  opscript_operation_free(operation);
  opscript_function_free(function);
  opscript_value_free(table);
}
