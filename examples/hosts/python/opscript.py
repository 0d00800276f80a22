"""opscript for Python, with ctypes: the parts of opscript.h that a small binding needs."""

import ctypes as c
import math

library = c.CDLL("libopscript.so.0.2")

HostFunction = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p, c.c_void_p)
NIL, BOOLEAN, INTEGER, NUMBER, STRING, TABLE = range(6)
pointer, text, size, place = c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(c.c_void_p)


def declare(result, name, *arguments):
    function = getattr(library, "opscript_" + name)
    function.restype, function.argtypes = result, arguments
    return function


error_message = declare(text, "error_message", pointer)
error_report = declare(text, "error_report", pointer)
error_free = declare(None, "error_free", pointer)
new_nil = declare(pointer, "value_new_nil")
new_boolean = declare(pointer, "value_new_boolean", c.c_bool)
new_integer = declare(pointer, "value_new_integer", c.c_int64)
new_number = declare(pointer, "value_new_number", c.c_double)
new_string = declare(pointer, "value_new_string", text, size)
new_table = declare(pointer, "value_new_table")
value_free = declare(None, "value_free", pointer)
get_type = declare(c.c_int, "value_get_type", pointer)
get_boolean = declare(c.c_bool, "value_get_boolean", pointer, c.POINTER(c.c_bool))
get_integer = declare(c.c_bool, "value_get_integer", pointer, c.POINTER(c.c_int64))
get_number = declare(c.c_bool, "value_get_number", pointer, c.POINTER(c.c_double))
get_string = declare(pointer, "value_get_string", pointer, c.POINTER(size))
get = declare(pointer, "value_get", pointer, pointer)
keys = declare(pointer, "value_keys", pointer)
set_value = declare(c.c_bool, "value_set", pointer, pointer, pointer)
describe = declare(text, "value_describe", pointer)
list_new = declare(pointer, "list_new")
list_count = declare(size, "list_count", pointer)
list_get = declare(pointer, "list_get", pointer, size)
list_add = declare(c.c_bool, "list_add", pointer, pointer)
list_free = declare(None, "list_free", pointer)
runtime_new = declare(pointer, "runtime_new", pointer, place)
runtime_free = declare(c.c_bool, "runtime_free", pointer)
runtime_evaluate = declare(pointer, "evaluate", pointer, text, size, text, pointer, place)
runtime_call = declare(pointer, "call", pointer, text, pointer, place)
runtime_register = declare(c.c_bool, "register", pointer, text, HostFunction, pointer, pointer, place)
function_new = declare(pointer, "function_new", pointer, text, size, text, pointer, place)
function_free = declare(None, "function_free", pointer)
operation_new = declare(pointer, "operation_new", pointer, pointer, place)
operation_free = declare(None, "operation_free", pointer)
queue_new = declare(pointer, "queue_new", pointer, place)
queue_add = declare(c.c_bool, "queue_add", pointer, pointer, place)
queue_free = declare(None, "queue_free", pointer)
results_of = declare(pointer, "results", pointer, pointer, c.c_double, place)


class Error(Exception):
    """An error that a script has raised; `report` also has the traceback."""


def checked(function, *arguments):
    """Calls a function whose last parameter is an error, and raises that."""
    error = c.c_void_p()
    result = function(*arguments, c.byref(error))
    if not result:
        exception = Error(error_message(error).decode())
        exception.report = error_report(error).decode()
        error_free(error)
        raise exception
    return result


def to_lua(value):
    """A new value of the library."""
    if value is None:
        return new_nil()
    if isinstance(value, bool):
        return new_boolean(value)
    if isinstance(value, int):
        return new_integer(value)
    if isinstance(value, float):
        return new_number(value)
    if isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        return new_string(data, len(data))
    table = new_table()
    for key, field in value.items() if isinstance(value, dict) else enumerate(value, 1):
        lua_key, lua_field = to_lua(key), to_lua(field)
        set_value(table, lua_key, lua_field)
        value_free(lua_key)
        value_free(lua_field)
    return table


def read(function, kind, value):
    result = kind()
    function(value, c.byref(result))
    return result.value


def to_python(value):
    """Converts a value of the library, which the caller still owns, to one of Python."""
    kind = get_type(value)
    if kind == NIL:
        return None
    if kind == BOOLEAN:
        return read(get_boolean, c.c_bool, value)
    if kind == INTEGER:
        return read(get_integer, c.c_int64, value)
    if kind == NUMBER:
        return read(get_number, c.c_double, value)
    if kind == STRING:
        length = size()
        data = c.string_at(get_string(value, c.byref(length)), length.value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    if kind == TABLE:
        names = keys(value)
        table = {to_python(key): to_python(get(value, key)) for key in (list_get(names, i) for i in range(list_count(names)))}
        list_free(names)
        is_array = list(table) == list(range(1, len(table) + 1))
        return list(table.values()) if is_array else table
    return describe(value).decode()


def list_of(values):
    """A new list of the library."""
    result = list_new()
    add_all(result, values)
    return result


def add_all(values, additions):
    for addition in additions:
        value = to_lua(addition)
        list_add(values, value)
        value_free(value)


def values_of(values):
    return [to_python(list_get(values, i)) for i in range(list_count(values))]


def taken(values):
    """Returns the values of a list, and frees the list."""
    result = values_of(values)
    list_free(values)
    return result


class Runtime:
    """Runs scripts, until the end of a `with`."""

    def __init__(self):
        self.runtime = checked(runtime_new, None)
        self.callbacks = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        runtime_free(self.runtime)

    def evaluate(self, source):
        source = source.encode()
        value = checked(runtime_evaluate, self.runtime, source, len(source), None, None)
        result = to_python(value)
        value_free(value)
        return result

    def call(self, name, *values):
        arguments = list_of(values)
        try:
            return taken(checked(runtime_call, self.runtime, name.encode(), arguments))
        finally:
            list_free(arguments)

    def register(self, name, function):
        """Makes a function of Python a global function of scripts."""

        def call(_, arguments, results):
            try:
                add_all(results, [function(*values_of(arguments))])
                return True
            except Exception as error:  # it becomes an error of the script
                add_all(results, [str(error)])
                return False

        callback = HostFunction(call)
        self.callbacks.append(callback)
        checked(runtime_register, self.runtime, name.encode(), callback, None, None)

    def map(self, source, items):
        """Calls a Lua function for each item, on all processors. The function's first argument is the operation."""
        source = source.encode()
        function = checked(function_new, self.runtime, source, len(source), None, None)
        queue = checked(queue_new, self.runtime)
        operations = []
        try:
            for item in items:
                arguments = list_of([item])
                operations.append(checked(operation_new, function, arguments))
                list_free(arguments)
                checked(queue_add, queue, operations[-1])
            return [taken(checked(results_of, self.runtime, operation, math.inf))[0] for operation in operations]
        finally:
            for operation in operations:
                operation_free(operation)
            queue_free(queue)
            function_free(function)
