// The code of functions that travel between machines.
#include <lua5.4/lauxlib.h>
#include <stdatomic.h>

#include "Transfer/Transfer.h"
#include "wire.h"

typedef struct function_visitor {
    void *context;
    void (*visit)(void *context, const uint8_t *first, size_t first_count, const uint8_t *second, size_t second_count);
} function_visitor;

static void visit_function(void *context, clua_chunk_function function) {
    const function_visitor *visitor = context;
    visitor->visit(visitor->context, function.first, function.first_count, function.second, function.second_count);
}

bool clua_wire_functions(const struct clua_code *code, void *context,
                         void (*visit)(void *context, const uint8_t *first, size_t first_count, const uint8_t *second, size_t second_count)) {
    function_visitor visitor = {context, visit};
    return clua_chunk_visit(code->dump, code->dump_count, visit_function, &visitor);
}

void clua_wire_mark_sent(struct clua_code *code) { atomic_store_explicit(&code->was_sent, true, memory_order_release); }

bool clua_wire_was_sent(const struct clua_code *code) { return atomic_load_explicit(&code->was_sent, memory_order_acquire); }

const char *clua_wire_place_of_code(const struct clua_code *code) { return code->label; }

static int append(lua_State *L, const void *bytes, size_t count, void *writer) {
    (void)L;
    writer_bytes(writer, bytes, count);
    return 0;
}

// A state without libraries compiles: nothing of the text can run there.
struct clua_code *clua_wire_compile(const char *text, size_t count, const char *name) {
    lua_State *L = luaL_newstate();
    if (L == NULL) return NULL;
    parcel_writer dump;
    writer_init(&dump);
    bool is_compiled = luaL_loadbufferx(L, text, count, name, NULL) == LUA_OK && lua_dump(L, append, &dump, 0) == 0 && !dump.failed;
    lua_close(L);
    struct clua_code *code = is_compiled ? clua_code_from((const char *)dump.bytes, dump.count, name, strlen(name)) : NULL;
    writer_free(&dump);
    return code;
}

void clua_wire_release_code(struct clua_code *code) { clua_code_release(code); }
