// Objects of the program, and their class.
#include "check.h"

typedef struct counter {
  atomic_long count;
  atomic_int destroyed;
} counter;

static opscript_class *class_;
static counter counters[2];

static void destroy(void *object) { count_up(&((counter *)object)->destroyed); }

static counter *counter_of(const opscript_list *arguments) { return opscript_value_object(opscript_list_get(arguments, 0), class_); }

static int64_t second(const opscript_list *arguments) {
  int64_t number = 0;
  opscript_value_get_integer(opscript_list_get(arguments, 1), &number);
  return number;
}

static bool new(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data, (void)arguments;
  opscript_value *value = opscript_value_new_object(class_, &counters[1], destroy);
  opscript_list_add(results, value);
  opscript_value_free(value);
  return true;
}

static bool add(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data;
  int64_t number = second(arguments);
  if (number == 0) return opscript_list_add_string(results, "nothing to add", OPSCRIPT_TEXT) && false;
  atomic_fetch_add(&counter_of(arguments)->count, number);
  return true;
}

static bool get(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data;
  return opscript_list_add_integer(results, atomic_load(&counter_of(arguments)->count));
}

static bool set(void *user_data, const opscript_list *arguments, opscript_list *results) {
  (void)user_data, (void)results;
  atomic_store(&counter_of(arguments)->count, second(arguments));
  return true;
}

static opscript_value *evaluate(opscript_runtime *runtime, const char *source) {
  return opscript_evaluate(runtime, source, OPSCRIPT_TEXT, NULL, NULL, NULL);
}

void test_objects(opscript_runtime *runtime) {
  opscript_error *error = NULL;
  class_ = opscript_class_new("Counter");
  CHECK(opscript_class_add(class_, OPSCRIPT_FUNCTION, "new", new, NULL, NULL, &error));
  CHECK(opscript_class_add(class_, OPSCRIPT_METHOD, "add", add, NULL, NULL, &error));
  CHECK(opscript_class_add(class_, OPSCRIPT_GETTER, "count", get, NULL, NULL, &error));
  CHECK(opscript_class_add(class_, OPSCRIPT_SETTER, "count", set, NULL, NULL, &error));
  CHECK(opscript_class_add(class_, OPSCRIPT_METAMETHOD, "__len", get, NULL, NULL, &error));
  CHECK_ERROR(opscript_class_add(class_, OPSCRIPT_METAMETHOD, "__gc", get, NULL, NULL, &error), OPSCRIPT_MISUSE, "'__gc' is not a metamethod");
  CHECK_ERROR(opscript_class_add(class_, (opscript_member)9, "x", get, NULL, NULL, &error), OPSCRIPT_MISUSE, "no kind of member");
  CHECK_ERROR(opscript_class_add(class_, OPSCRIPT_METHOD, NULL, get, NULL, NULL, &error), OPSCRIPT_MISUSE, "name is NULL");
  CHECK_ERROR(opscript_class_add(class_, OPSCRIPT_METHOD, "x", NULL, NULL, NULL, &error), OPSCRIPT_MISUSE, "function is NULL");
  CHECK_ERROR(opscript_class_add(NULL, OPSCRIPT_METHOD, "x", get, NULL, NULL, &error), OPSCRIPT_MISUSE, "class_ is NULL");
  CHECK(opscript_register_class(runtime, class_, &error));
  CHECK_ERROR(opscript_register_class(runtime, NULL, &error), OPSCRIPT_MISUSE, "class_ is NULL");
  CHECK_ERROR(opscript_register_class(NULL, class_, &error), OPSCRIPT_MISUSE, "runtime is NULL");

  opscript_value *value = opscript_value_new_object(class_, &counters[0], destroy);
  CHECK(opscript_value_get_type(value) == OPSCRIPT_OBJECT && opscript_value_object(value, class_) == &counters[0]);
  CHECK(opscript_set_global(runtime, "counter", value, &error));
  CHECK(was(evaluate(runtime, "(function() counter:add(2) counter.count = counter.count + 3 return #counter end)()"), "5"));
  CHECK(atomic_load(&counters[0].count) == 5);
  CHECK(was(evaluate(runtime, "(select(2, pcall(counter.add, 1)):match 'call .add. with .:.')"), "\"call 'add' with ':'\""));
  CHECK(was(evaluate(runtime, "(select(2, pcall(counter.add, counter, 0)):match 'nothing to add')"), "\"nothing to add\""));
  CHECK(was(evaluate(runtime, "(select(2, pcall(function() return counter.cuont end)):match 'did you mean .count')"), "\"did you mean 'count\""));
  // Operations use the same object, and so does whoever gets it back.
  opscript_list_free(opscript_run(
    runtime,
    "local queue = opscript.OperationQueue.new() for i = 1, 100 do queue:addOperation(function() counter:add(1) end) end "
    "queue:waitUntilAllOperationsAreFinished()",
    OPSCRIPT_TEXT, NULL, NULL, &error));
  CHECK(error == NULL && atomic_load(&counters[0].count) == 105);
  opscript_value *same = evaluate(runtime, "counter");
  CHECK(opscript_value_equal(value, same) && opscript_value_object(same, class_) == &counters[0]);
  opscript_value_free(same);
  CHECK(was(evaluate(runtime, "(function() local c = Counter.new() c:add(7) return c.count end)()"), "7"));

  // Another class, and other values.
  opscript_class *other = opscript_class_new("Other");
  CHECK(opscript_value_object(value, other) == NULL && opscript_value_object(NULL, class_) == NULL && opscript_value_object(value, NULL) == NULL);
  opscript_value *number = opscript_value_new_integer(1);
  CHECK(opscript_value_object(number, class_) == NULL);
  opscript_value_free(number);
  opscript_class_free(other);
  opscript_class_free(NULL);
  CHECK(opscript_class_new(NULL) == NULL && opscript_value_new_object(NULL, NULL, NULL) == NULL);

  CHECK(atomic_load(&counters[0].destroyed) == 0);
  opscript_list_free(opscript_run(runtime, "counter = nil collectgarbage()", OPSCRIPT_TEXT, NULL, NULL, NULL));
  opscript_value_free(value);
}

// After the runtime is closed, so that no worker's state has the objects any more.
void test_objects_are_gone(void) {
  CHECK(reaches(&counters[0].destroyed, 1) && reaches(&counters[1].destroyed, 1));
  opscript_class_free(class_);
}
