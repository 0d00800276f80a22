// Uses every function of opscript.h, rightly and wrongly. Prints the checks that fail, and how many there were. With an argument, starts no worker
// processes, because valgrind 3.19 does not know what that takes.
#include "check.h"

int failure_count = 0;
static int check_count = 0;

void check(bool condition, const char *text, const char *file, int line) {
  check_count++;
  if (condition) return;
  failure_count++;
  printf("%s:%d: %s\n", file, line, text);
}

void check_error(opscript_error *error, opscript_error_kind kind, const char *text, const char *file, int line) {
  check(opscript_error_get_kind(error) == kind, "the kind of the error", file, line);
  check(error != NULL && strstr(opscript_error_message(error), text) != NULL, text, file, line);
  if (error != NULL && (opscript_error_get_kind(error) != kind || strstr(opscript_error_message(error), text) == NULL))
    printf("  it is %d: %s\n", (int)opscript_error_get_kind(error), opscript_error_message(error));
  opscript_error_free(error);
}

bool is(const opscript_value *value, const char *source) {
  bool same = strcmp(opscript_value_describe(value), source) == 0;
  if (!same) printf("  it is %s\n", opscript_value_describe(value));
  return same;
}

bool was(opscript_value *value, const char *source) {
  bool same = value != NULL && is(value, source);
  opscript_value_free(value);
  return same;
}

bool was_list(opscript_list *list, const char *source) {
  bool same = list != NULL && opscript_list_count(list) == 1 && is(opscript_list_get(list, 0), source);
  opscript_list_free(list);
  return same;
}

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t count_changed = PTHREAD_COND_INITIALIZER;

void count_up(void *counter) {
  pthread_mutex_lock(&count_lock);
  atomic_fetch_add((atomic_int *)counter, 1);
  pthread_cond_broadcast(&count_changed);
  pthread_mutex_unlock(&count_lock);
}

bool reaches(atomic_int *counter, int value) {
  pthread_mutex_lock(&count_lock);
  while (atomic_load(counter) < value) pthread_cond_wait(&count_changed, &count_lock);
  pthread_mutex_unlock(&count_lock);
  return atomic_load(counter) == value;
}

int main(int argument_count, char **arguments) {
  (void)arguments;
  CHECK(opscript_version_number() == OPSCRIPT_VERSION_NUMBER);
  CHECK(strcmp(opscript_version(), OPSCRIPT_VERSION) == 0);
  test_values();
  test_tables();
  test_lists();
  test_configurations();
  test_stores();
  if (argument_count == 1) test_processes();
  opscript_error *error = NULL;
  opscript_configuration *configuration = opscript_configuration_new();
  opscript_configuration_set_workers(configuration, 2);
  opscript_runtime *runtime = opscript_runtime_new(configuration, &error);
  opscript_configuration_free(configuration);
  CHECK(runtime != NULL);
  test_scripts(runtime);
  test_host_functions(runtime);
  test_operations(runtime);
  test_queues(runtime);
  test_waiting(runtime);
  test_objects(runtime);
  test_nesting(runtime);
  CHECK(opscript_runtime_free(runtime));
  test_objects_are_gone();
  test_no_descriptor();
  test_closing_at_once();
  test_threads();
  test_null();
  test_closed();
  printf("%s: %d failures\n", check_count > 200 ? "all checks" : "too few checks", failure_count);
  return failure_count == 0 && check_count > 200 ? 0 : 1;
}
