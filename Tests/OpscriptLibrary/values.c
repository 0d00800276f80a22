// Values, tables and lists, without a runtime.
#include "check.h"

void test_values(void) {
  CHECK(was(opscript_value_new_nil(), "nil"));
  CHECK(was(opscript_value_new_boolean(true), "true"));
  CHECK(was(opscript_value_new_integer(INT64_MIN), "math.mininteger"));
  CHECK(was(opscript_value_new_integer(INT64_MAX), "9223372036854775807"));
  CHECK(was(opscript_value_new_number(0.5), "0.5"));
  CHECK(was(opscript_value_new_string("a\0b", 3), "\"a\\x00b\""));
  CHECK(was(opscript_value_new_string(NULL, 0), "\"\""));
  CHECK(opscript_value_new_string(NULL, 1) == NULL);
  CHECK(opscript_value_new_string(NULL, OPSCRIPT_TEXT) == NULL);
  CHECK(opscript_value_new_string("abc", (size_t)-2) == NULL);

  opscript_value *integer = opscript_value_new_integer(3), *number = opscript_value_new_number(2.5);
  opscript_value *yes = opscript_value_new_boolean(true), *bytes = opscript_value_new_string("\xff\0z", 3);
  opscript_value *text = opscript_value_new_string("text", OPSCRIPT_TEXT), *copy = opscript_value_copy(text);
  bool boolean = false;
  int64_t whole = 0;
  double real = 0;
  size_t length = 0;
  CHECK(opscript_value_get_type(integer) == OPSCRIPT_INTEGER && opscript_value_get_type(number) == OPSCRIPT_NUMBER);
  CHECK(opscript_value_get_type(yes) == OPSCRIPT_BOOLEAN && opscript_value_get_type(bytes) == OPSCRIPT_STRING);
  CHECK(opscript_value_get_boolean(yes, &boolean) && boolean && !opscript_value_get_boolean(integer, &boolean));
  CHECK(opscript_value_get_integer(integer, &whole) && whole == 3 && !opscript_value_get_integer(number, &whole) && whole == 3);
  CHECK(opscript_value_get_number(number, &real) && real == 2.5 && opscript_value_get_number(integer, &real) && real == 3);
  CHECK(!opscript_value_get_number(text, &real) && opscript_value_get_integer(integer, NULL));
  CHECK(memcmp(opscript_value_get_string(bytes, &length), "\xff\0z", 4) == 0 && length == 3);
  CHECK(opscript_value_get_string(bytes, NULL) == opscript_value_get_string(bytes, &length));
  CHECK(strcmp(opscript_value_get_string(copy, NULL), "text") == 0 && opscript_value_get_string(integer, &length) == NULL);
  CHECK(opscript_value_equal(text, copy) && !opscript_value_equal(text, bytes) && !opscript_value_equal(integer, number));
  CHECK(opscript_value_get_operation(text) == NULL && opscript_value_get_queue(text) == NULL);
  opscript_value_free(copy);
  CHECK(is(text, "\"text\""));
  opscript_value_free(text);
  opscript_value_free(bytes);
  opscript_value_free(yes);
  opscript_value_free(number);
  opscript_value_free(integer);
}

void test_tables(void) {
  opscript_value *table = opscript_value_new_table(), *rows = opscript_value_new_table();
  CHECK(opscript_value_get_type(table) == OPSCRIPT_TABLE && opscript_value_count(table) == 0);
  for (int i = 1; i <= 1000; i++) {
    opscript_value *element = opscript_value_new_integer(i * i);
    CHECK(opscript_value_append(rows, element));
    opscript_value_free(element);
  }
  CHECK(opscript_value_count(rows) == 1000 && is(opscript_value_element(rows, 30), "900"));
  CHECK(is(opscript_value_element(rows, 0), "nil") && is(opscript_value_element(rows, INT64_MIN), "nil"));
  CHECK(is(opscript_value_element(rows, 1001), "nil"));

  opscript_value *key = opscript_value_new_number(2), *not_a_number = opscript_value_new_number(NAN), *nil = opscript_value_new_nil();
  opscript_value *text = opscript_value_new_string("x", OPSCRIPT_TEXT), *half = opscript_value_new_number(0.5);
  CHECK(is(opscript_value_get(rows, key), "4"));
  CHECK(opscript_value_set(rows, key, text) && is(opscript_value_element(rows, 2), "\"x\""));
  CHECK(!opscript_value_set(rows, not_a_number, text) && !opscript_value_set(rows, nil, text) && !opscript_value_set(text, key, text));
  CHECK(!opscript_value_append(text, text) && opscript_value_append(rows, nil) && opscript_value_count(rows) == 1000);
  CHECK(opscript_value_set(rows, key, nil) && opscript_value_count(rows) == 999);
  // The last element is now the first: the next one fills the gap, and the one after it follows the rest.
  CHECK(opscript_value_append(rows, text) && is(opscript_value_element(rows, 2), "\"x\""));
  CHECK(opscript_value_append(rows, text) && is(opscript_value_element(rows, 1001), "\"x\""));

  CHECK(opscript_value_set_field(table, "rows", rows) && opscript_value_set_field(table, "name", text));
  CHECK(opscript_value_set(table, half, text) && opscript_value_set(table, key, text));
  CHECK(!opscript_value_set_field(table, NULL, text) && is(opscript_value_field(table, NULL), "nil"));
  CHECK(is(opscript_value_field(table, "name"), "\"x\"") && opscript_value_field(table, "rows") == opscript_value_field(table, "rows"));
  opscript_list *keys = opscript_value_keys(table);
  CHECK(opscript_list_count(keys) == 4 && is(opscript_list_get(keys, 0), "2") && is(opscript_list_get(keys, 1), "\"name\""));
  CHECK(is(opscript_list_get(keys, 2), "\"rows\"") && is(opscript_list_get(keys, 3), "0.5"));
  opscript_list_free(keys);

  // A copy does not change with the original, and a table that contains itself cannot be made.
  opscript_value *copy = opscript_value_copy(table);
  CHECK(opscript_value_set_field(table, "table", table) && opscript_value_count(table) == 5 && opscript_value_count(copy) == 4);
  CHECK(opscript_value_set_field(table, "name", NULL) && opscript_value_count(table) == 4);

  opscript_error *error = NULL;
  CHECK(is(opscript_value_find(copy, "rows[30]", OPSCRIPT_INTEGER, &error), "900") && error == NULL);
  CHECK(is(opscript_value_find(copy, "rows[30]", OPSCRIPT_NUMBER, NULL), "900"));
  CHECK(opscript_value_find(copy, "", OPSCRIPT_TABLE, NULL) == copy);
  CHECK(opscript_value_find(copy, "rows[30].price", OPSCRIPT_STRING, &error) == NULL);
  CHECK(opscript_error_get_kind(error) == OPSCRIPT_CONVERSION && strcmp(opscript_error_path(error), "rows[30].price") == 0);
  CHECK(strcmp(opscript_error_message(error), "rows[30].price: expected a string, found nil") == 0);
  opscript_error_free(error);
  CHECK_ERROR(opscript_value_find(copy, "name", OPSCRIPT_BOOLEAN, &error), OPSCRIPT_CONVERSION, "name: expected a boolean, found \"x\"");
  CHECK_ERROR(opscript_value_find(copy, "rows[x]", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "no number in its brackets");
  CHECK_ERROR(opscript_value_find(copy, "rows[1", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "no number in its brackets");
  CHECK_ERROR(opscript_value_find(copy, "rows..x", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "empty name");
  CHECK_ERROR(opscript_value_find(copy, ".rows", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "empty name");
  CHECK_ERROR(opscript_value_find(copy, "\xff", OPSCRIPT_NIL, &error), OPSCRIPT_MISUSE, "not UTF-8");
  opscript_value_free(copy);
  opscript_value_free(half);
  opscript_value_free(text);
  opscript_value_free(nil);
  opscript_value_free(not_a_number);
  opscript_value_free(key);
  opscript_value_free(rows);
  opscript_value_free(table);
}

void test_lists(void) {
  opscript_list *list = opscript_list_new();
  opscript_value *value = opscript_value_new_integer(1);
  CHECK(opscript_list_count(list) == 0 && is(opscript_list_get(list, 0), "nil"));
  CHECK(opscript_list_add(list, value) && opscript_list_add_nil(list) && opscript_list_add_boolean(list, false));
  CHECK(opscript_list_add_integer(list, -5) && opscript_list_add_number(list, 1e300));
  CHECK(opscript_list_add_string(list, "a\0b", 3) && opscript_list_add_string(list, "a", OPSCRIPT_TEXT));
  CHECK(!opscript_list_add_string(list, NULL, 2) && !opscript_list_add(list, NULL) && !opscript_list_add_operation(list, NULL));
  opscript_value_free(value);
  CHECK(opscript_list_count(list) == 7 && is(opscript_list_get(list, 0), "1") && is(opscript_list_get(list, 1), "nil"));
  CHECK(is(opscript_list_get(list, 2), "false") && is(opscript_list_get(list, 3), "-5") && is(opscript_list_get(list, 5), "\"a\\x00b\""));
  CHECK(is(opscript_list_get(list, 7), "nil") && is(opscript_list_get(list, (size_t)-1), "nil"));
  opscript_list_free(list);
}
