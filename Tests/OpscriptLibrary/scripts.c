// Running scripts, and functions of the program that they call.
#include "check.h"

void test_scripts(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  opscript_list *arguments = opscript_list_new();
  opscript_list_add_integer(arguments, 20);
  opscript_list_add_string(arguments, "a\0\xff", 3);
  opscript_list *results = opscript_run(runtime, "local n, s = ... return n + 1, nil, #s, s", OPSCRIPT_TEXT, "=test", arguments, &error);
  CHECK(results != NULL && error == NULL && opscript_list_count(results) == 4);
  CHECK(is(opscript_list_get(results, 0), "21") && is(opscript_list_get(results, 1), "nil") && is(opscript_list_get(results, 2), "3"));
  size_t length = 0;
  CHECK(memcmp(opscript_value_get_string(opscript_list_get(results, 3), &length), "a\0\xff", 4) == 0 && length == 3);
  opscript_list_free(results);
  CHECK(was(opscript_evaluate(runtime, "... * 2", OPSCRIPT_TEXT, NULL, arguments, &error), "40"));
  CHECK(was(opscript_evaluate(runtime, "1 + 1", 1, NULL, NULL, &error), "1"));
  CHECK(was(opscript_evaluate(runtime, "#'a\0b'", 6, NULL, NULL, &error), "3"));
  CHECK(was_list(opscript_call(runtime, "math.type", arguments, &error), "\"integer\""));
  opscript_list_free(arguments);
  opscript_value *other = opscript_evaluate(runtime, "print", OPSCRIPT_TEXT, NULL, NULL, &error);
  CHECK(opscript_value_get_type(other) == OPSCRIPT_OTHER);
  CHECK(opscript_set_global(runtime, "other", other, &error) && was(opscript_get_global(runtime, "other", &error), "nil"));
  opscript_value *rows = opscript_value_new_table(), *value = opscript_value_new_number(INFINITY);
  CHECK(opscript_value_append(rows, other) && opscript_value_append(rows, value) && opscript_value_count(rows) == 1);
  CHECK(opscript_value_get_type(opscript_value_element(rows, 1)) == OPSCRIPT_NUMBER);
  opscript_value_free(rows);
  opscript_value_free(other);
  CHECK(opscript_set_global(runtime, "limit", value, &error) && opscript_set_global(runtime, "none", NULL, &error));
  CHECK(was(opscript_evaluate(runtime, "limit == math.huge and none == nil", OPSCRIPT_TEXT, NULL, NULL, &error), "true"));
  opscript_value_free(value);

  char path[] = "/tmp/opscript-tests.XXXXXX";
  int descriptor = mkstemp(path);
  FILE *file = fdopen(descriptor, "w");
  fputs("return select('#', ...)", file);
  fclose(file);
  CHECK(was_list(opscript_run_file(runtime, path, NULL, &error), "0"));
  remove(path);
  CHECK_ERROR(opscript_run_file(runtime, path, NULL, &error), OPSCRIPT_RUNTIME, "cannot open");

  // Errors.
  CHECK(opscript_run(runtime, "local function f() error { code = 7 } end\nf()", OPSCRIPT_TEXT, NULL, NULL, &error) == NULL);
  CHECK(opscript_error_get_kind(error) == OPSCRIPT_RUNTIME && is(opscript_error_value(error), "{code = 7}"));
  CHECK(strstr(opscript_error_traceback(error), "stack traceback:") == opscript_error_traceback(error));
  CHECK(strstr(opscript_error_report(error), opscript_error_traceback(error)) != NULL && *opscript_error_path(error) == 0);
  CHECK(!opscript_error_is_incomplete(error));
  opscript_error_free(error);
  CHECK(opscript_run(runtime, "for", OPSCRIPT_TEXT, NULL, NULL, &error) == NULL);
  CHECK(opscript_error_get_kind(error) == OPSCRIPT_SYNTAX && opscript_error_is_incomplete(error));
  opscript_error_free(error);
  CHECK(opscript_run(runtime, "error('a\\0b', 0)", OPSCRIPT_TEXT, NULL, NULL, &error) == NULL);
  CHECK(strcmp(opscript_error_message(error), "a\\0b") == 0 && is(opscript_error_value(error), "\"a\\x00b\""));
  opscript_error_free(error);
  error = NULL;
  CHECK(opscript_run(runtime, "error()", OPSCRIPT_TEXT, NULL, NULL, NULL) == NULL);
  CHECK_ERROR(opscript_run(runtime, "\xff", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_MISUSE, "opscript_run: source is not UTF-8");
  CHECK_ERROR(opscript_run(runtime, "x", (size_t)-2, NULL, NULL, &error), OPSCRIPT_MISUSE, "more than there can be");
  CHECK_ERROR(opscript_run(runtime, NULL, 0, NULL, NULL, &error), OPSCRIPT_MISUSE, "source is NULL");
  CHECK_ERROR(opscript_run(runtime, "", 0, "\xff", NULL, &error), OPSCRIPT_MISUSE, "name is not UTF-8");
  CHECK_ERROR(opscript_run_file(runtime, NULL, NULL, &error), OPSCRIPT_MISUSE, "path is NULL");
  CHECK_ERROR(opscript_call(runtime, "nowhere.at.all", NULL, &error), OPSCRIPT_RUNTIME, "nowhere");
  CHECK_ERROR(opscript_call(runtime, NULL, NULL, &error), OPSCRIPT_MISUSE, "function is NULL");
  CHECK_ERROR(opscript_get_global(runtime, NULL, &error), OPSCRIPT_MISUSE, "name is NULL");
  CHECK_ERROR(opscript_set_global(runtime, NULL, NULL, &error), OPSCRIPT_MISUSE, "name is NULL");
  CHECK_ERROR(
    opscript_evaluate(runtime, "local t = {} t.t = t return t", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "contains itself");
}

static bool swap(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data;
  return opscript_list_add(results, opscript_list_get(arguments, 1)) && opscript_list_add(results, opscript_list_get(arguments, 0));
}

// Fails with its first argument as the message.
static bool fail(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data;
  if (opscript_list_count(arguments) > 0) opscript_list_add(results, opscript_list_get(arguments, 0));
  return false;
}

// Calls the runtime that calls it, and tries to close it.
static bool reenter(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)arguments;
  opscript_runtime *runtime = user_data;
  CHECK_ERROR(opscript_runtime_close(runtime, 1, &error), OPSCRIPT_MISUSE, "a call closes the runtime");
  CHECK(!opscript_runtime_free(runtime));
  opscript_value *value = opscript_evaluate(runtime, "6 * 7", OPSCRIPT_TEXT, NULL, NULL, NULL);
  bool is_done = opscript_list_add(results, value);
  opscript_value_free(value);
  return is_done;
}

void test_host_functions(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  static atomic_int destroyed;
  CHECK(opscript_register(runtime, "swap", swap, &destroyed, NULL, &error));
  CHECK(opscript_register(runtime, "fail", fail, NULL, NULL, &error) && opscript_register(runtime, "reenter", reenter, runtime, NULL, &error));
  CHECK(was(opscript_evaluate(runtime, "{ swap(1, 'x') }", OPSCRIPT_TEXT, NULL, NULL, &error), "{\"x\", 1}"));
  CHECK(was(opscript_evaluate(runtime, "reenter()", OPSCRIPT_TEXT, NULL, NULL, &error), "42"));
  CHECK_ERROR(opscript_run(runtime, "fail('too bad')", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "script:1: too bad");
  CHECK_ERROR(opscript_run(runtime, "fail('\\xff')", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "\xef\xbf\xbd");
  CHECK_ERROR(opscript_run(runtime, "fail(7)", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "7");
  CHECK_ERROR(opscript_run(runtime, "fail()", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "a function of the host has failed");
  CHECK(was(opscript_evaluate(runtime, "pcall(fail, 'caught')", OPSCRIPT_TEXT, NULL, NULL, &error), "false"));
  // User data is destroyed even if the call that takes it is refused.
  CHECK_ERROR(opscript_register(runtime, "x", NULL, &destroyed, count_up, &error), OPSCRIPT_MISUSE, "function is NULL");
  CHECK_ERROR(opscript_register(runtime, NULL, swap, &destroyed, count_up, &error), OPSCRIPT_MISUSE, "name is NULL");
  CHECK_ERROR(opscript_register(NULL, "x", swap, &destroyed, count_up, &error), OPSCRIPT_MISUSE, "runtime is NULL");
  CHECK(atomic_load(&destroyed) == 3);
  opscript_runtime *other = opscript_runtime_new(NULL, &error);
  CHECK(opscript_register(other, "x", swap, &destroyed, count_up, &error) && atomic_load(&destroyed) == 3);
  CHECK(opscript_runtime_free(other) && atomic_load(&destroyed) == 4);
}
