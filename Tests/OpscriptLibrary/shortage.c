// Values that are nested deep, a process without a free descriptor, and a runtime that closes at once.
#include "check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

// Nests as many tables as the library takes, in values or in keys.
static opscript_value *nest(bool in_keys, int *depth) {
  opscript_value *value = opscript_value_new_integer(1), *one = opscript_value_new_integer(1), *name = opscript_value_new_string("x", 1);
  for (*depth = 0; *depth < 1000000; ++*depth) {
    opscript_value *table = opscript_value_new_table();
    bool is_set = in_keys ? opscript_value_set(table, value, one) : opscript_value_set(table, name, value);
    opscript_value *unused = is_set ? value : table;
    if (is_set) value = table;
    opscript_value_free(unused);
    if (!is_set) break;
  }
  opscript_value_free(name);
  opscript_value_free(one);
  return value;
}

void test_nesting(opscript_runtime *runtime) {
  int depth = 0;
  opscript_value *keys = nest(true, &depth), *copy = opscript_value_copy(keys);
  CHECK(depth == 200 && opscript_value_equal(keys, copy));
  opscript_value_free(copy);
  opscript_value_free(keys);

  opscript_value *value = nest(false, &depth), *other = nest(false, &depth), *table = opscript_value_new_table();
  CHECK(depth == 200 && opscript_value_equal(value, other) && opscript_value_describe(value) != NULL);
  CHECK(!opscript_value_set_field(table, "x", value) && !opscript_value_append(table, value) && opscript_value_count(table) == 0);
  CHECK(opscript_set_global(runtime, "deep", value, NULL));
  opscript_list *arguments = opscript_list_new();
  CHECK(opscript_list_add(arguments, value));
  CHECK(was_list(opscript_run(runtime, "local t, depth = ..., 0 while t ~= 1 do t, depth = t.x, depth + 1 end return depth", OPSCRIPT_TEXT,
                              NULL, arguments, NULL), "200"));
  opscript_list_free(arguments);
  // Without the deep field, the table fits again.
  opscript_value *one = opscript_value_new_integer(1);
  CHECK(opscript_value_set_field(value, "x", one) && opscript_value_set_field(table, "x", value) && is(table, "{x = {x = 1}}"));
  opscript_value_free(one);
  opscript_value_free(table);
  opscript_value_free(other);
  opscript_value_free(value);
}

void test_no_descriptor(void) {
  opscript_configuration *configuration = opscript_configuration_new();
  opscript_configuration_set_untrusted(configuration);
  opscript_runtime *runtime = opscript_runtime_new(configuration, NULL);
  struct rlimit before, few;
  getrlimit(RLIMIT_NOFILE, &before);
  few = before;
  few.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &few);
  CHECK_ERROR(opscript_run(runtime, "return 1", OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "Too many open files");
  CHECK(opscript_wake_descriptor(runtime) == -1);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(was_list(opscript_run(runtime, "return 1", OPSCRIPT_TEXT, NULL, NULL, NULL), "1"));
  CHECK(opscript_wake_descriptor(runtime) >= 0);
  opscript_list_free(opscript_runtime_close(runtime, 10, NULL));
  opscript_runtime_free(runtime);
  opscript_configuration_free(configuration);
}

void test_closing_at_once(void) {
  // Functions in C, because a function in Lua that is interrupted is reported on stderr.
  static const char *const pending[] = {
    "", "opscript.every(1, type)", "opscript.OperationQueue.new():addOperation(function() opscript.sleep(60) end)",
    "opscript.OperationQueue.main:addOperation(type, 1)", "opscript.run { 'true' } opscript.process { 'sleep', 60 }",
    "local q = opscript.OperationQueue.new() q.isSuspended = true for i = 1, 10 do q:addOperation(type, 1) end",
    "local op = opscript.Operation.new(type, 1) op.completionBlock = type opscript.OperationQueue.new():addOperation(op)",
  };
  for (size_t i = 0; i < sizeof pending / sizeof *pending; i++) {
    opscript_runtime *runtime = opscript_runtime_new(NULL, NULL);
    opscript_list_free(opscript_run(runtime, pending[i], OPSCRIPT_TEXT, NULL, NULL, NULL));
    opscript_list *unfinished = opscript_runtime_close(runtime, 0, NULL);
    CHECK(unfinished != NULL);
    opscript_list_free(unfinished);
    opscript_runtime_free(runtime);
  }
}
