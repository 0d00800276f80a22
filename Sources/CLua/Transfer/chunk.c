#include "Transfer/chunk.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The types of Lua's luaconf.h on 64-bit machines. The header of a dump says whether they are the same.
#define HEADER "\x1bLua\x54\x00\x19\x93\r\n\x1a\n\x04\x08\x08"
#define HEADER_COUNT (sizeof(HEADER) - 1)
#define PREAMBLE_COUNT (HEADER_COUNT + 8 + 8)  // the header, then a lua_Integer and a lua_Number to compare
#define MAX_UPVALUES 255

enum opcode {
    OP_LOADK = 3,
    OP_LOADKX = 4,
    OP_GETUPVAL = 9,
    OP_SETUPVAL = 10,
    OP_GETTABUP = 11,
    OP_GETTABLE = 12,
    OP_GETFIELD = 14,
    OP_SETTABUP = 15,
    OP_SELF = 20,
    OP_RETURN = 70,
    OP_CLOSURE = 79,
    OP_VARARGPREP = 81,
    OP_EXTRAARG = 82,
    OP_NONE = 127
};

enum constant_tag {
    TAG_NIL = 0x00,
    TAG_FALSE = 0x01,
    TAG_INTEGER = 0x03,
    TAG_SHORT_STRING = 0x04,
    TAG_TRUE = 0x11,
    TAG_FLOAT = 0x13,
    TAG_LONG_STRING = 0x14
};

// An instruction: the opcode in 7 bits, then A (8), k (1), B (8), C (8); or A, Bx (17); or Ax (25).
static uint32_t opcode(uint32_t instruction) { return instruction & 0x7f; }
static uint32_t arg_a(uint32_t instruction) { return instruction >> 7 & 0xff; }
static uint32_t arg_k(uint32_t instruction) { return instruction >> 15 & 1; }
static uint32_t arg_b(uint32_t instruction) { return instruction >> 16 & 0xff; }
static uint32_t arg_c(uint32_t instruction) { return instruction >> 24; }
static uint32_t arg_bx(uint32_t instruction) { return instruction >> 15; }
static uint32_t arg_ax(uint32_t instruction) { return instruction >> 7; }

// After a failure every read returns zeros.
typedef struct reader {
    const uint8_t *at;
    const uint8_t *end;
    clua_chunk_status status;
    clua_global_read *reads;
    size_t read_count, read_capacity;
    uint64_t whole[4];  // see clua_chunk
    bool may_change_libraries, assigns_fields;
    void (*visit)(void *context, clua_chunk_function function);  // may be NULL
    void *context;
} reader;

typedef struct string {
    const uint8_t *bytes;  // NULL for other constants
    size_t count;
} string;

// Maps each upvalue of a function to the outermost function's upvalue that it is: its number from 1, or 0 for none.
typedef struct upvalue_map {
    size_t count;
    uint8_t outer[MAX_UPVALUES];
} upvalue_map;

// The parts of a function that show which globals it reads.
typedef struct body {
    const uint8_t *code;
    size_t code_count;
    string *constants;  // owned
    size_t constant_count;
} body;

static bool failed(const reader *in) { return in->status != CLUA_CHUNK_OK; }

static void fail(reader *in, clua_chunk_status status) {
    if (!failed(in)) in->status = status;
    in->at = in->end;
}

// Returns NULL if fewer bytes are left.
static const uint8_t *read_bytes(reader *in, size_t count) {
    if (failed(in) || (size_t)(in->end - in->at) < count) {
        fail(in, CLUA_CHUNK_UNREADABLE);
        return NULL;
    }
    const uint8_t *bytes = in->at;
    in->at += count;
    return bytes;
}

static uint8_t read_byte(reader *in) {
    const uint8_t *byte = read_bytes(in, 1);
    return byte == NULL ? 0 : *byte;
}

static size_t read_number(reader *in) {
    size_t number = 0;
    for (;;) {
        uint8_t byte = read_byte(in);
        if (number > SIZE_MAX >> 7) fail(in, CLUA_CHUNK_UNREADABLE);
        if (failed(in)) return 0;
        number = number << 7 | (byte & 0x7f);
        if (byte & 0x80) return number;
    }
}

// Reads a count of items of at least `size` bytes each. Fails if the rest of the dump is too short for them.
static size_t read_count(reader *in, size_t size) {
    size_t count = read_number(in);
    if (count <= (size_t)(in->end - in->at) / size) return count;
    fail(in, CLUA_CHUNK_UNREADABLE);
    return 0;
}

static string read_string(reader *in) {
    size_t size = read_number(in);  // 0 for none, otherwise the length plus 1
    string none = {NULL, 0};
    if (size == 0) return none;
    string read = {read_bytes(in, size - 1), size - 1};
    return failed(in) ? none : read;
}

static string read_constant(reader *in) {
    string none = {NULL, 0};
    switch (read_byte(in)) {
    case TAG_NIL:
    case TAG_FALSE:
    case TAG_TRUE:
        return none;
    case TAG_INTEGER:
    case TAG_FLOAT:
        read_bytes(in, 8);
        return none;
    case TAG_SHORT_STRING:
    case TAG_LONG_STRING:
        return read_string(in);
    default:
        fail(in, CLUA_CHUNK_UNREADABLE);
        return none;
    }
}

static void read_constants(reader *in, body *function) {
    size_t count = read_count(in, 1);
    if (count == 0) return;
    function->constants = calloc(count, sizeof(string));
    if (function->constants == NULL) {
        fail(in, CLUA_CHUNK_NO_MEMORY);
        return;
    }
    function->constant_count = count;
    for (size_t i = 0; i < count; i++) function->constants[i] = read_constant(in);
}

// `parent` is NULL for the outermost function.
static void read_upvalues(reader *in, const upvalue_map *parent, upvalue_map *map) {
    size_t count = read_count(in, 3);
    if (count > MAX_UPVALUES) fail(in, CLUA_CHUNK_UNREADABLE);
    if (failed(in)) return;
    map->count = count;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *description = read_bytes(in, 3);  // whether it is in the parent's stack, index, kind
        if (parent == NULL)
            map->outer[i] = (uint8_t)(i + 1);
        else if (description[0] != 0)
            map->outer[i] = 0;
        else if (description[1] < parent->count)
            map->outer[i] = parent->outer[description[1]];
        else
            fail(in, CLUA_CHUNK_UNREADABLE);
        if (failed(in)) return;
    }
}

// Lua uses the counts of code and upvalues for these lists, too, and does not compare them. A function without debug information has empty lists.
static void skip_debug_information(reader *in, size_t code_count, size_t upvalue_count) {
    size_t line_count = read_count(in, 1);
    read_bytes(in, line_count);
    if (line_count != 0 && line_count != code_count) fail(in, CLUA_CHUNK_UNREADABLE);
    for (size_t i = read_count(in, 2); i > 0; i--) {  // absolute lines, where a byte for the difference is too small
        if (read_number(in) >= code_count) fail(in, CLUA_CHUNK_UNREADABLE);
        read_number(in);
    }
    for (size_t i = read_count(in, 3); i > 0; i--) {  // local variables
        read_string(in);
        read_number(in);
        read_number(in);
    }
    size_t name_count = read_count(in, 1);
    if (name_count != 0 && name_count != upvalue_count) fail(in, CLUA_CHUNK_UNREADABLE);
    for (size_t i = 0; i < name_count; i++) read_string(in);
}

static uint32_t instruction(const body *function, size_t index) {
    uint32_t code = OP_NONE;
    if (index < function->code_count) memcpy(&code, function->code + index * sizeof(code), sizeof(code));
    return code;
}

static void add_read(reader *in, uint8_t upvalue, string name, string field) {
    if (in->read_count == in->read_capacity) {
        size_t capacity = in->read_capacity == 0 ? 16 : 2 * in->read_capacity;
        clua_global_read *reads = realloc(in->reads, capacity * sizeof(clua_global_read));
        if (reads == NULL) {
            fail(in, CLUA_CHUNK_NO_MEMORY);
            return;
        }
        in->reads = reads;
        in->read_capacity = capacity;
    }
    clua_global_read read = {upvalue, (const char *)name.bytes, name.count, (const char *)field.bytes, field.count};
    in->reads[in->read_count++] = read;
}

// `upvalue` counts from 1; 0 means none.
static void note_whole(reader *in, uint8_t upvalue) {
    if (upvalue > 0) in->whole[(upvalue - 1) / 64] |= UINT64_C(1) << (upvalue - 1) % 64;
}

static string constant_at(const body *function, uint32_t index) {
    return index < function->constant_count ? function->constants[index] : (string){NULL, 0};
}

static void note_read(reader *in, const body *function, const upvalue_map *map, uint32_t upvalue, uint32_t constant, string field) {
    string name = constant_at(function, constant);
    if (upvalue >= map->count || map->outer[upvalue] == 0 || name.bytes == NULL) return;
    add_read(in, map->outer[upvalue], name, field);
    if (name.count != 2 || memcmp(name.bytes, "_G", 2) != 0) return;
    if (field.bytes != NULL)
        add_read(in, map->outer[upvalue], field, (string){NULL, 0});
    else
        note_whole(in, map->outer[upvalue]);
}

static bool is_one_of(string name, const char *const *names) {
    for (; *names != NULL; names++)
        if (name.bytes != NULL && strlen(*names) == name.count && memcmp(*names, name.bytes, name.count) == 0) return true;
    return false;
}

// Whether the instruction reads a field of the table in register `table`, with a constant name.
static bool reads_field(uint32_t code, uint32_t table) {
    return (opcode(code) == OP_GETFIELD || (opcode(code) == OP_SELF && arg_k(code) != 0)) && arg_b(code) == table;
}

// Whether the function may do more with the global that it reads at `index` than use a function of a library. Classes and the
// parts of the module are tables, too.
static bool may_change_library(const body *function, size_t index, string name) {
    static const char *const ways[] = {"debug", "dofile", "getmetatable", "load", "loadfile", "package", "require", NULL};
    static const char *const libraries[] = {"coroutine", "io", "math", "opscript", "os", "string", "table", "utf8", NULL};
    if (is_one_of(name, ways)) return true;
    if (!is_one_of(name, libraries)) return false;
    uint32_t next = instruction(function, index + 1);
    if (!reads_field(next, arg_a(instruction(function, index))) || arg_c(next) >= function->constant_count) return true;
    string field = function->constants[arg_c(next)];
    static const char *const parts[] = {"fs", "json", NULL}, *const tables[] = {"path", "emptyArray", NULL};
    uint32_t last = instruction(function, index + 2);
    bool reads_only = reads_field(last, arg_a(next));
    // The compiler overwrites the table if no other code uses it.
    if (is_one_of(field, parts)) return !reads_only || arg_a(last) != arg_a(next) || is_one_of(constant_at(function, arg_c(last)), tables);
    bool is_class = field.count > 0 && *field.bytes >= 'A' && *field.bytes <= 'Z';
    return is_class && !reads_only;
}

// The only field, or argument of `require`, that the function uses of the global that it reads at `index`; none if it may use more. The compiler
// puts a field into the table's register if no other code uses the table.
static string used_field(const body *function, size_t index) {
    static const char *const require[] = {"require", NULL};
    uint32_t code = instruction(function, index), next = instruction(function, index + 1), table = arg_a(code);
    if (opcode(next) == OP_GETFIELD && arg_b(next) == table && arg_a(next) == table) return constant_at(function, arg_c(next));
    bool is_argument = opcode(next) == OP_LOADK && arg_a(next) == table + 1;
    if (is_argument && is_one_of(constant_at(function, arg_c(code)), require)) return constant_at(function, arg_bx(next));
    return (string){NULL, 0};
}

// Whether `code` reads a field of the table in register `table`, with the name in register `key`.
static bool reads_register(uint32_t code, uint32_t table, uint32_t key) {
    if (opcode(code) == OP_SELF && arg_k(code) != 0) return false;
    return (opcode(code) == OP_GETTABLE || opcode(code) == OP_SELF) && arg_b(code) == table && arg_c(code) == key;
}

// The compiler reads a field of an upvalue in one instruction only if the name has at most 40 bytes and is one of the first 256 constants.
// Otherwise it emits OP_GETUPVAL, loads the name into a register if necessary, and then reads, with nothing in between. A store starts in
// the same way and then loads the value.
static void scan_read_by_register(reader *in, const body *function, const upvalue_map *map, size_t index) {
    uint32_t get = instruction(function, index), next = instruction(function, index + 1);
    uint32_t table = arg_a(get), upvalue = arg_b(get);
    const string none = {NULL, 0};
    bool short_form = opcode(next) == OP_GETFIELD || (opcode(next) == OP_SELF && arg_k(next) != 0);
    if (short_form && arg_b(next) == table) note_read(in, function, map, upvalue, arg_c(next), none);

    if (opcode(next) == OP_LOADK && reads_register(instruction(function, index + 2), table, arg_a(next)))
        note_read(in, function, map, upvalue, arg_bx(next), none);
    if (opcode(next) == OP_LOADKX && reads_register(instruction(function, index + 3), table, arg_a(next))) {
        uint32_t extra = instruction(function, index + 2);
        if (opcode(extra) == OP_EXTRAARG) note_read(in, function, map, upvalue, arg_ax(extra), none);
    }
}

static void scan_code(reader *in, const body *function, const upvalue_map *map) {
    for (size_t i = 0; i < function->code_count && !failed(in); i++) {
        uint32_t code = instruction(function, i);
        if (opcode(code) == OP_GETTABUP) {
            note_read(in, function, map, arg_b(code), arg_c(code), used_field(function, i));
            if (arg_c(code) < function->constant_count && may_change_library(function, i, function->constants[arg_c(code)]))
                in->may_change_libraries = true;
        }
        if (opcode(code) == OP_SELF && arg_k(code) != 0 && constant_at(function, arg_c(code)).bytes != NULL)
            add_read(in, 0, constant_at(function, arg_c(code)), (string){NULL, 0});
        if (opcode(code) == OP_SETTABUP && arg_a(code) < map->count && map->outer[arg_a(code)] != 0) in->assigns_fields = true;
        if (opcode(code) == OP_GETUPVAL) {
            scan_read_by_register(in, function, map, i);
            if (arg_b(code) < map->count) note_whole(in, map->outer[arg_b(code)]);
        }
    }
}

static bool assigns_upvalues(const body *function) {
    for (size_t i = 0; i < function->code_count; i++)
        if (opcode(instruction(function, i)) == OP_SETUPVAL) return true;
    return false;
}

// Whether a call of the function is safe up to its first instruction, where a hook may stop it. Lua checks nothing: it makes room for the stack
// only, fills in missing parameters, and calls no hook before a function with varargs has prepared them.
static bool begins_safely(const uint8_t *frame, const body *function) {
    uint8_t parameter_count = frame[0], has_varargs = frame[1], stack_size = frame[2];
    if (function->code_count == 0 || parameter_count > stack_size) return false;
    uint32_t first = instruction(function, 0);
    return !has_varargs || (opcode(first) == OP_VARARGPREP && arg_a(first) == parameter_count);
}

typedef struct description {
    const uint8_t *upvalues;  // the descriptions of the function's upvalues in the dump
    bool has_parameters;
    bool is_reusable;
} description;

// Fills `about` unless it is NULL.
static void read_function(reader *in, const upvalue_map *parent, int depth, upvalue_map *map, description *about) {
    read_string(in);  // the source, or none if it is the parent's
    const uint8_t *start = in->at;
    read_number(in);  // the first and the last line
    read_number(in);
    const uint8_t *frame = read_bytes(in, 3);  // parameter count, whether there are varargs, stack size

    body function = {0};
    function.code_count = read_count(in, sizeof(uint32_t));
    function.code = read_bytes(in, function.code_count * sizeof(uint32_t));
    read_constants(in, &function);
    read_upvalues(in, parent, map);
    const uint8_t *rest = in->at;
    if (about != NULL) {
        about->upvalues = in->at - 3 * map->count;
        about->has_parameters = frame != NULL && (frame[0] != 0 || frame[1] != 0);
    }
    if (!failed(in) && !begins_safely(frame, &function)) fail(in, CLUA_CHUNK_UNREADABLE);
    if (!failed(in)) scan_code(in, &function, map);
    free(function.constants);

    size_t nested_count = read_count(in, 1);
    if (about != NULL) about->is_reusable = !failed(in) && nested_count == 0 && !assigns_upvalues(&function);
    if (nested_count > 0 && depth == CLUA_CHUNK_MAX_DEPTH) fail(in, CLUA_CHUNK_UNREADABLE);
    for (size_t i = 0; i < nested_count && !failed(in); i++) {
        upvalue_map nested = {0};
        read_function(in, map, depth + 1, &nested, NULL);
    }
    skip_debug_information(in, function.code_count, map->count);
    if (in->visit == NULL || failed(in)) return;
    in->visit(in->context, (clua_chunk_function){start, rest, (size_t)(rest - start) - 3 * map->count, (size_t)(in->at - rest)});
}

static void read_preamble(reader *in) {
    const int64_t integer = 0x5678;
    const double number = 370.5;
    const uint8_t *bytes = read_bytes(in, PREAMBLE_COUNT);
    if (bytes == NULL) return;
    bool same = memcmp(bytes, HEADER, HEADER_COUNT) == 0 && memcmp(bytes + HEADER_COUNT, &integer, 8) == 0 &&
                memcmp(bytes + HEADER_COUNT + 8, &number, 8) == 0;
    if (!same) fail(in, CLUA_CHUNK_UNREADABLE);
}

static int compare_texts(const char *a, size_t a_count, const char *b, size_t b_count) {
    if (a_count != b_count) return a_count < b_count ? -1 : 1;
    return a_count == 0 ? (a != NULL) - (b != NULL) : memcmp(a, b, a_count);
}

static int compare_reads(const void *left, const void *right) {
    const clua_global_read *a = left, *b = right;
    if (a->upvalue != b->upvalue) return a->upvalue < b->upvalue ? -1 : 1;
    int order = compare_texts(a->name, a->name_count, b->name, b->name_count);
    return order != 0 ? order : compare_texts(a->field, a->field_count, b->field, b->field_count);
}

static void remove_duplicates(reader *in) {
    if (in->read_count == 0) return;
    qsort(in->reads, in->read_count, sizeof(clua_global_read), compare_reads);
    size_t kept = 1;
    for (size_t i = 1; i < in->read_count; i++)
        if (compare_reads(&in->reads[kept - 1], &in->reads[i]) != 0) in->reads[kept++] = in->reads[i];
    in->read_count = kept;
}

clua_chunk_status clua_chunk_parse(const uint8_t *dump, size_t dump_count, clua_chunk *chunk) {
    reader in = {.at = dump, .end = dump + dump_count, .status = CLUA_CHUNK_OK};
    upvalue_map map = {0};
    description about = {.upvalues = dump};
    memset(chunk, 0, sizeof(*chunk));

    read_preamble(&in);
    uint8_t closure_upvalues = read_byte(&in);
    read_function(&in, NULL, 1, &map, &about);
    if (closure_upvalues != map.count || in.at != in.end) fail(&in, CLUA_CHUNK_UNREADABLE);
    if (failed(&in)) {
        free(in.reads);
        return in.status;
    }
    remove_duplicates(&in);
    chunk->has_parameters = about.has_parameters;
    memcpy(chunk->whole, in.whole, sizeof chunk->whole);
    chunk->is_reusable = about.is_reusable;
    chunk->may_change_libraries = in.may_change_libraries;
    chunk->assigns_fields = in.assigns_fields;
    chunk->upvalue_count = (int)map.count;
    chunk->upvalues = (size_t)(about.upvalues - dump);
    chunk->reads = in.reads;
    chunk->read_count = in.read_count;
    return CLUA_CHUNK_OK;
}

bool clua_chunk_visit(const uint8_t *dump, size_t dump_count, void (*visit)(void *context, clua_chunk_function function), void *context) {
    reader in = {.at = dump, .end = dump + dump_count, .status = CLUA_CHUNK_OK, .visit = visit, .context = context};
    upvalue_map map = {0};
    read_bytes(&in, PREAMBLE_COUNT + 1);
    read_function(&in, NULL, 1, &map, NULL);
    free(in.reads);
    return !failed(&in);
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t count) {
    memcpy(to, bytes, count);
    return to + count;
}

#define NUMBER(n) (0x80 | (n))  // the format's encoding of numbers up to 127

// The factory has a parameter for each upvalue and is called without arguments. So each call captures fresh registers, and the return, with
// k set, closes them. The factory has no source, so that a function without a source does not inherit one.
uint8_t *clua_chunk_factory(const uint8_t *dump, size_t dump_count, const clua_chunk *chunk, size_t *factory_count) {
    uint8_t count = (uint8_t)chunk->upvalue_count;
    uint32_t code[2] = {
        OP_CLOSURE | (uint32_t)count << 7,                       // R[count] := closure of nested function 0
        OP_RETURN | (uint32_t)count << 7 | 1u << 15 | 2u << 16,  // return R[count]; k
    };
    const uint8_t before[] = {0,  // upvalue count of the closure
                              NUMBER(0), NUMBER(0), NUMBER(0),  // no source, lines
                              count, 0, (uint8_t)(count + 2),   // parameters, no varargs, stack size
                              NUMBER(2)};
    const uint8_t between[] = {NUMBER(0), NUMBER(0), NUMBER(1)};  // constants, upvalues, nested functions
    const uint8_t after[] = {NUMBER(0), NUMBER(0), NUMBER(0), NUMBER(0)};  // no debug information

    const size_t skipped = PREAMBLE_COUNT + 1;
    size_t size = PREAMBLE_COUNT + sizeof(before) + sizeof(code) + sizeof(between) + (dump_count - skipped) + sizeof(after);
    uint8_t *factory = malloc(size);
    if (factory == NULL) return NULL;
    uint8_t *at = put(factory, dump, PREAMBLE_COUNT);
    at = put(at, before, sizeof(before));
    at = put(at, code, sizeof(code));
    at = put(at, between, sizeof(between));
    uint8_t *descriptions = at + (chunk->upvalues - skipped);
    at = put(at, dump + skipped, dump_count - skipped);
    put(at, after, sizeof(after));
    for (uint8_t i = 0; i < count; i++) {
        const uint8_t description[3] = {1, i, 0};  // in the parent's stack, index, kind
        memcpy(descriptions + 3 * (size_t)i, description, sizeof(description));
    }
    *factory_count = size;
    return factory;
}
