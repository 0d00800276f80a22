// A program that lets its users script it: prices come from the program, orders are computed by operations on all processors.
#include <math.h>
#include <opscript.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program if a call has failed.
static void check(bool is_done, opscript_error *error) {
  if (is_done) return;
  fprintf(stderr, "host: %s\n", opscript_error_report(error));
  opscript_error_free(error);
  exit(1);
}

// price(item): a function for scripts, which returns a price. `user_data` is the price of everything but apples.
static bool price(void *user_data, const opscript_list *arguments, opscript_list *results) {
  const char *item = opscript_value_get_string(opscript_list_get(arguments, 0), NULL);
  if (item == NULL) {
    opscript_list_add_string(results, "price: the name of an item expected", OPSCRIPT_TEXT);
    return false;
  }
  return opscript_list_add_integer(results, strcmp(item, "apple") == 0 ? 3 : *(int *)user_data);
}

// Takes the output of scripts.
static void show(void *user_data, const char *bytes, size_t length) {
  (void)user_data;
  printf("script: %.*s", (int)length, bytes);
}

static void evaluate(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_value *order = opscript_evaluate(
    runtime, "{ customer = 'Ada', rows = { { item = 'apple', count = 2 }, { item = 'pear', count = 1 } } }", OPSCRIPT_TEXT, NULL, NULL,
    &error);
  check(order != NULL, error);
  const opscript_value *rows = opscript_value_field(order, "rows");
  for (size_t i = 1; i <= opscript_value_count(rows); i++) {
    int64_t count = 0;
    const opscript_value *row = opscript_value_element(rows, (int64_t)i);
    opscript_value_get_integer(opscript_value_field(row, "count"), &count);
    printf("%d of %s\n", (int)count, opscript_value_get_string(opscript_value_field(row, "item"), NULL));
  }
  // A path leads to a value that must have a certain type.
  if (opscript_value_find(order, "rows[2].price", OPSCRIPT_NUMBER, &error) == NULL) {
    printf("%s\n", opscript_error_message(error));
    opscript_error_free(error);
  }
  opscript_value_free(order);
}

static void fail(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_list *results = opscript_run(runtime, "local x = nil\nreturn price(x)", OPSCRIPT_TEXT, "=order", NULL, &error);
  if (results == NULL && opscript_error_get_kind(error) == OPSCRIPT_RUNTIME) printf("%s\n", opscript_error_message(error));
  opscript_list_free(results);
  opscript_error_free(error);
}

static void operations(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_function *function = opscript_function_new(
    runtime, "return function(operation, item, count) return price(item) * count end", OPSCRIPT_TEXT, NULL, NULL, &error);
  check(function != NULL, error);
  opscript_queue *queue = opscript_queue_new(runtime, &error);
  check(queue != NULL, error);
  opscript_operation *all[4];
  for (int i = 0; i < 4; i++) {
    opscript_list *arguments = opscript_list_new();
    opscript_list_add_string(arguments, i % 2 ? "pear" : "apple", OPSCRIPT_TEXT);
    opscript_list_add_integer(arguments, i + 1);
    all[i] = opscript_operation_new(function, arguments, &error);
    opscript_list_free(arguments);
    check(all[i] != NULL && opscript_queue_add(queue, all[i], &error), error);
  }
  for (int i = 0; i < 4; i++) {
    int64_t sum = 0;
    opscript_list *results = opscript_results(runtime, all[i], INFINITY, &error);
    check(results != NULL, error);
    opscript_value_get_integer(opscript_list_get(results, 0), &sum);
    printf("operation %d: %d\n", i + 1, (int)sum);
    opscript_list_free(results);
    opscript_operation_free(all[i]);
  }
  opscript_queue_free(queue);
  opscript_function_free(function);
}

// An event loop that polls: it drains when the descriptor is readable, until a timer of the script has fired.
static void loop(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_list_free(opscript_run(
    runtime, "opscript.after(0.01, function() print 'the timer has fired'; fired = true end)", OPSCRIPT_TEXT, NULL, NULL, NULL));
  struct pollfd watched = {.fd = opscript_wake_descriptor(runtime), .events = POLLIN, .revents = 0};
  for (bool has_fired = false; !has_fired;) {
    if (poll(&watched, 1, -1) < 1) continue;
    check(opscript_drain(runtime, 0, INFINITY, NULL, &error), error);
    opscript_value *fired = opscript_get_global(runtime, "fired", &error);
    check(fired != NULL, error);
    opscript_value_get_boolean(fired, &has_fired);
    opscript_value_free(fired);
  }
}

int main(void) {
  int other_price = 4;
  opscript_error *error = NULL;
  opscript_configuration *configuration = opscript_configuration_new();
  opscript_configuration_set_workers(configuration, 2);
  opscript_configuration_set_output(configuration, show, NULL, NULL);
  opscript_runtime *runtime = opscript_runtime_new(configuration, &error);
  opscript_configuration_free(configuration);
  check(runtime != NULL, error);
  check(opscript_register(runtime, "price", price, &other_price, NULL, &error), error);

  evaluate(runtime);
  fail(runtime);
  operations(runtime);
  loop(runtime);

  opscript_list *unfinished = opscript_runtime_close(runtime, 10, &error);
  check(unfinished != NULL, error);
  printf("%zu operations did not end\n", opscript_list_count(unfinished));
  opscript_list_free(unfinished);
  opscript_runtime_free(runtime);
  return 0;
}
