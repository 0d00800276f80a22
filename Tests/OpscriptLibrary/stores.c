// The store of finished work.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

// The explanations that an explainer has received.
struct told {
  char last[200];
  int count;
  atomic_int destroyed;
};

static void explain(void *user_data, const opscript_operation *operation, const char *name, opscript_decision decision, const char *reason) {
  struct told *told = user_data;
  char *own = opscript_operation_get_name(operation);
  CHECK(own != NULL && strcmp(own, name) == 0);
  opscript_string_free(own);
  snprintf(told->last, sizeof told->last, "%s %d %s", name, (int)decision, reason);
  told->count++;
}

static void destroy_told(void *user_data) { atomic_fetch_add(&((struct told *)user_data)->destroyed, 1); }

static void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  if (folder == NULL) return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char file[600];
    snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    unlink(file);
  }
  closedir(folder);
  rmdir(path);
}

static const char square[] =
  "local op = opscript.Operation.new { name = 'square', memoize = true, arguments = { 7 }, main = function(_, n) return n * n end }\n"
  "opscript.OperationQueue.new():addOperation(op):waitUntilFinished()\n"
  "return tostring(op.result) .. ' ' .. tostring(op.isSkipped)";

// The result of the operation in a runtime of its own, and whether it was skipped.
static bool runs(const opscript_configuration *configuration, const char *expected) {
  opscript_error *error = NULL;
  opscript_runtime *runtime = opscript_runtime_new(configuration, &error);
  opscript_list *results = opscript_run(runtime, square, OPSCRIPT_TEXT, NULL, NULL, &error);
  bool as_expected = results != NULL && strcmp(opscript_value_get_string(opscript_list_get(results, 0), NULL), expected) == 0;
  if (!as_expected) printf("  it is %s\n", error != NULL ? opscript_error_report(error) : opscript_value_describe(opscript_list_get(results, 0)));
  opscript_list_free(results);
  opscript_error_free(error);
  return opscript_runtime_free(runtime) && as_expected;
}

static void check_that_none_is_there(const opscript_configuration *configuration) {
  opscript_runtime *runtime = opscript_runtime_new(configuration, NULL);
  CHECK_ERROR(opscript_run(runtime, square, OPSCRIPT_TEXT, NULL, NULL, &error), OPSCRIPT_RUNTIME, "keeps no store");
  CHECK(opscript_runtime_free(runtime));
}

void test_stores(void) {
  char folder[] = "/tmp/opscript-test-XXXXXX", store[sizeof folder + 6];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(store, sizeof store, "%s/store", folder);
  static struct told told;
  opscript_configuration *configuration = opscript_configuration_new();
  check_that_none_is_there(configuration);

  // The folder need not come first.
  opscript_configuration_set_store_mode(configuration, OPSCRIPT_STORE_DRY_RUN);
  opscript_configuration_set_store_explainer(configuration, explain, &told, destroy_told);
  opscript_configuration_set_store_limit(configuration, 64 << 20);
  opscript_configuration_set_store(configuration, store);
  CHECK(runs(configuration, "nil false") && strcmp(told.last, "square 1 never ran") == 0);
  CHECK(access(store, F_OK) != 0);
  opscript_configuration_set_store_mode(configuration, OPSCRIPT_STORE_NORMAL);
  CHECK(runs(configuration, "49 false") && strcmp(told.last, "square 1 never ran") == 0);
  CHECK(access(store, F_OK) == 0);
  CHECK(runs(configuration, "49 true") && strcmp(told.last, "square 0 ") == 0);
  opscript_configuration_set_store_mode(configuration, OPSCRIPT_STORE_ALWAYS_RUN);
  CHECK(runs(configuration, "49 false") && told.count == 4 && atomic_load(&told.destroyed) == 0);
  opscript_configuration_set_store_explainer(configuration, NULL, NULL, NULL);
  CHECK(atomic_load(&told.destroyed) == 1);
  opscript_configuration_set_store_mode(configuration, OPSCRIPT_STORE_NORMAL);
  opscript_configuration_set_store_limit(configuration, SIZE_MAX);
  CHECK(runs(configuration, "49 true"));
  opscript_configuration_set_store_limit(configuration, 0);
  CHECK(runs(configuration, "49 true"));
  opscript_configuration_set_store(configuration, NULL);
  check_that_none_is_there(configuration);
  opscript_configuration_free(configuration);

  configuration = opscript_configuration_new();
  opscript_configuration_set_store(configuration, "");
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "the folder of the store is an empty text");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_store(configuration, "\xff");
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "the folder of the store is not UTF-8");
  opscript_configuration_free(configuration);
  configuration = opscript_configuration_new();
  opscript_configuration_set_store_mode(configuration, (opscript_store_mode)3);
  CHECK_ERROR(opscript_runtime_new(configuration, &error), OPSCRIPT_MISUSE, "there is no mode of the store with the number 3");
  opscript_configuration_free(configuration);
  remove_folder(store);
  remove_folder(folder);

  opscript_configuration_set_store(NULL, "x");
  opscript_configuration_set_store_limit(NULL, 1);
  opscript_configuration_set_store_mode(NULL, OPSCRIPT_STORE_NORMAL);
  opscript_configuration_set_store_explainer(NULL, explain, &told, destroy_told);
  CHECK(atomic_load(&told.destroyed) == 2);
}
