// Shared by the test programs of the library. A check that fails is printed, and the program then ends with the status 1.
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <opscript.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int failure_count;

#define CHECK(condition) check(condition, #condition, __FILE__, __LINE__)
// Checks that a call failed with an error of a kind whose message contains a text, and frees the error.
#define CHECK_ERROR(call, kind, text) \
  do { \
    opscript_error *error = NULL; \
    check(!(call), "it fails: " #call, __FILE__, __LINE__); \
    check_error(error, kind, text, __FILE__, __LINE__); \
  } while (0)

void check(bool condition, const char *text, const char *file, int line);
void check_error(opscript_error *error, opscript_error_kind kind, const char *text, const char *file, int line);

// Whether a borrowed value is what Lua source says.
bool is(const opscript_value *value, const char *source);
// The same for a value that is freed then.
bool was(opscript_value *value, const char *source);
// The same for a list with one value, which is freed then.
bool was_list(opscript_list *list, const char *source);

// Counts, on any thread: a notice and a destructor.
void count_up(void *counter);
// Waits until a counter has a value. For what happens after an operation has finished.
bool reaches(atomic_int *counter, int value);

void test_values(void);
void test_tables(void);
void test_lists(void);
void test_configurations(void);
void test_processes(void);
void test_stores(void);
void test_scripts(opscript_runtime *runtime);
void test_host_functions(opscript_runtime *runtime);
void test_operations(opscript_runtime *runtime);
void test_queues(opscript_runtime *runtime);
void test_waiting(opscript_runtime *runtime);
void test_objects(opscript_runtime *runtime);
void test_objects_are_gone(void);
void test_threads(void);
void test_nesting(opscript_runtime *runtime);
void test_no_descriptor(void);
void test_closing_at_once(void);
void test_null(void);
void test_closed(void);

#endif
