// The host's side of registrations in a worker process.
#include <stdlib.h>
#include <string.h>

#include "Core/Core.h"
#include "Processes/conversation.h"

// Returns the number of a function that the host registers; UINT64_MAX if memory has run out.
static uint64_t number_of(clua_process *process, void *function) {
    if (process->function_count == process->function_capacity) {
        size_t capacity = process->function_capacity == 0 ? 16 : 2 * process->function_capacity;
        void **functions = realloc(process->functions, capacity * sizeof *functions);
        if (functions == NULL) return UINT64_MAX;
        process->functions = functions;
        process->function_capacity = capacity;
    }
    process->functions[process->function_count] = function;
    return process->function_count++;
}

static void write_function(clua_process *process, parcel_writer *writer, const char *name, void *function) {
    uint64_t number = number_of(process, function);
    if (number == UINT64_MAX) writer->failed = true;
    writer_string(writer, name, strlen(name));
    writer_varint(writer, number);
}

static void write_functions(clua_process *process, parcel_writer *writer, const clua_named_function *functions, size_t count) {
    writer_varint(writer, count);
    for (size_t i = 0; i < count; i++) write_function(process, writer, functions[i].name, functions[i].function);
}

int clua_process_register(clua_process *process, clua_named_function function, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, REGISTERED_FUNCTION);
    write_function(process, &writer, function.name, function.function);
    return process_perform_simple(process, MESSAGE_REGISTER, &writer, failure);
}

int clua_process_register_loader(clua_process *process, void *loader, clua_failure *failure) {
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, REGISTERED_LOADER);
    write_function(process, &writer, "", loader);
    return process_perform_simple(process, MESSAGE_REGISTER, &writer, failure);
}

int clua_process_register_class(clua_process *process, const clua_object_class *class, clua_failure *failure) {
    if (process->class_count == process->class_capacity) {
        size_t capacity = process->class_capacity == 0 ? 16 : 2 * process->class_capacity;
        const void **classes = realloc(process->classes, capacity * sizeof *classes);
        if (classes == NULL) {
            clua_refuse(failure, CLUA_NO_MEMORY);
            return failure->status = LUA_ERRMEM;
        }
        process->classes = classes;
        process->class_capacity = capacity;
    }
    process->classes[process->class_count++] = class->key;
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, REGISTERED_CLASS);
    writer_string(&writer, class->name, strlen(class->name));
    write_functions(process, &writer, class->functions, class->function_count);
    write_functions(process, &writer, class->methods, class->method_count);
    write_functions(process, &writer, class->getters, class->getter_count);
    write_functions(process, &writer, class->setters, class->setter_count);
    write_functions(process, &writer, class->metamethods, class->metamethod_count);
    write_function(process, &writer, "", class->get_other);
    write_function(process, &writer, "", class->set_other);
    return process_perform_simple(process, MESSAGE_REGISTER, &writer, failure);
}
