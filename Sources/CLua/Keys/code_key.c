#include "Keys/code_key.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Reading the dump of a function, which clua_chunk_parse has checked when the code was made. The types are those of Lua's luaconf.h on 64-bit
// machines. The check has compared them, too.
enum { PREAMBLE_COUNT = 4 + 1 + 1 + 6 + 3 + 8 + 8 };

enum opcode {
    OP_LOADK = 3,
    OP_LOADKX = 4,
    OP_GETUPVAL = 9,
    OP_GETTABUP = 11,
    OP_GETFIELD = 14,
    OP_SETTABUP = 15,
    OP_SETTABLE = 16,
    OP_SETI = 17,
    OP_SETFIELD = 18,
    OP_SELF = 20,
    OP_ADDK = 22,
    OP_BXORK = 31,
    OP_MMBINK = 48,
    OP_JMP = 56,
    OP_EQK = 60,
    OP_FORLOOP = 73,
    OP_FORPREP = 74,
    OP_TFORPREP = 75,
    OP_TFORLOOP = 77,
    OP_CLOSURE = 79,
    OP_EXTRAARG = 82
};

enum constant_tag { TAG_INTEGER = 0x03, TAG_SHORT_STRING = 0x04, TAG_FLOAT = 0x13, TAG_LONG_STRING = 0x14 };

enum { NO_LINE_DIFFERENCE = -0x80, MAX_UPVALUES = 255 };

typedef struct constant {
    const uint8_t *bytes;  // as in the dump, with the tag
    size_t count;
    graph_text text;  // of a string
} constant;

// The instructions between two changes of the line.
typedef struct piece {
    uint32_t line;
    uint32_t order;
    uint64_t digest;
} piece;

typedef struct walker {
    const uint8_t *at;
    XXH3_state_t *state;
    bool no_memory;
    piece *pieces;
    graph_text *required;
    size_t piece_count, piece_capacity, required_count, required_capacity;
} walker;

typedef struct function {
    const uint8_t *code;
    size_t code_count;
    constant *constants;  // owned
    size_t constant_count;
} function;

static size_t read_number(walker *w) {
    size_t number = 0;
    for (;;) {
        uint8_t byte = *w->at++;
        number = number << 7 | (byte & 0x7f);
        if (byte & 0x80) return number;
    }
}

static graph_text read_text(walker *w) {
    size_t size = read_number(w);  // 0 for none, otherwise the length plus 1
    graph_text text = {(const char *)w->at, size == 0 ? 0 : size - 1};
    w->at += text.count;
    return text;
}

static void hash(walker *w, const void *bytes, size_t count) { XXH3_128bits_update(w->state, bytes, count); }

static void read_constants(walker *w, function *f) {
    f->constant_count = read_number(w);
    f->constants = calloc(f->constant_count + 1, sizeof *f->constants);
    w->no_memory = w->no_memory || f->constants == NULL;
    for (size_t i = 0; i < f->constant_count; i++) {
        constant read = {.bytes = w->at};
        uint8_t tag = *w->at++;
        if (tag == TAG_INTEGER || tag == TAG_FLOAT) w->at += 8;
        if (tag == TAG_SHORT_STRING || tag == TAG_LONG_STRING) read.text = read_text(w);
        read.count = (size_t)(w->at - read.bytes);
        if (f->constants != NULL) f->constants[i] = read;
    }
}

// MARK: instructions

// An instruction: the opcode in 7 bits, then A (8), k (1), B (8), C (8); or A, Bx (17); or Ax (25).
static uint32_t instruction(const function *f, size_t index) {
    uint32_t code = 0;
    if (index < f->code_count) memcpy(&code, f->code + index * sizeof code, sizeof code);
    return code;
}

static uint32_t opcode(uint32_t code) { return code & 0x7f; }
static uint32_t arg_a(uint32_t code) { return code >> 7 & 0xff; }
static uint32_t arg_k(uint32_t code) { return code >> 15 & 1; }

enum { FIELD_B = 16, FIELD_C = 24 };
static const uint32_t MASK_BX = 0xffff8000u;

static uint64_t mix(uint64_t digest, uint64_t more) {
    uint64_t words[2] = {digest, more};
    return XXH3_64bits(words, sizeof words);
}

static uint64_t digest_of_constant(const function *f, uint32_t number) {
    if (number >= f->constant_count) return 0;
    return XXH3_64bits(f->constants[number].bytes, f->constants[number].count);
}

static bool has_constant_b(uint32_t op) { return op == OP_SETTABUP || op == OP_SETFIELD || op == OP_MMBINK || op == OP_EQK; }

static bool has_constant_c(uint32_t code) {
    uint32_t op = opcode(code);
    if (op == OP_GETTABUP || op == OP_GETFIELD || (op >= OP_ADDK && op <= OP_BXORK)) return true;
    return arg_k(code) && (op == OP_SELF || (op >= OP_SETTABUP && op <= OP_SETFIELD));
}

// The numbers of constants and of nested functions, and the distances of jumps, change when other lines change. So the constants themselves
// count, and the other two do not.
static uint64_t digest_of_instruction(const function *f, size_t index) {
    uint32_t code = instruction(f, index), op = opcode(code);
    uint64_t digest = 0;
    if (op == OP_LOADK) digest = digest_of_constant(f, code >> 15);
    if (op == OP_EXTRAARG && index > 0 && opcode(instruction(f, index - 1)) == OP_LOADKX)
        return digest_of_constant(f, code >> 7);
    if (op == OP_LOADK || op == OP_CLOSURE || op == OP_FORLOOP || op == OP_FORPREP || op == OP_TFORPREP || op == OP_TFORLOOP)
        code &= ~MASK_BX;
    if (op == OP_JMP) code = op;
    if (has_constant_b(op)) {
        digest = mix(digest, digest_of_constant(f, code >> FIELD_B & 0xff));
        code &= ~(UINT32_C(0xff) << FIELD_B);
    }
    if (has_constant_c(code)) {
        digest = mix(digest, digest_of_constant(f, code >> FIELD_C));
        code &= ~(UINT32_C(0xff) << FIELD_C);
    }
    return mix(digest, code);
}

// The name of the field that an instruction reads from the globals or from an upvalue. `names` are those of the upvalues, as in the dump.
static graph_text name_read(const function *f, uint32_t get, const uint8_t *names) {
    graph_text none = {NULL, 0};
    if (opcode(get) == OP_GETTABUP) return get >> FIELD_C < f->constant_count ? f->constants[get >> FIELD_C].text : none;
    if (opcode(get) != OP_GETUPVAL) return none;
    walker reader = {.at = names};
    size_t count = read_number(&reader), number = get >> FIELD_B & 0xff;
    if (number >= count) return none;
    for (size_t i = 0; i < number; i++) read_text(&reader);
    return read_text(&reader);
}

// Finds `require "NAME"`: the function is read from a global or an upvalue, and the next instruction loads its argument.
static void note_required(walker *w, const function *f, size_t index, const uint8_t *names) {
    uint32_t get = instruction(f, index), load = instruction(f, index + 1), argument = load >> 15;
    if (opcode(load) != OP_LOADK || arg_a(load) != arg_a(get) + 1 || argument >= f->constant_count) return;
    graph_text name = name_read(f, get, names), text = f->constants[argument].text;
    if (name.count != 7 || memcmp(name.bytes, "require", 7) != 0 || text.bytes == NULL) return;
    if (!graph_reserve((void **)&w->required, w->required_count, &w->required_capacity, 1, sizeof *w->required))
        w->no_memory = true;
    else
        w->required[w->required_count++] = text;
}

// MARK: lines

static void add_piece(walker *w, uint32_t line, uint64_t digest) {
    if (!graph_reserve((void **)&w->pieces, w->piece_count, &w->piece_capacity, 1, sizeof *w->pieces))
        w->no_memory = true;
    else {
        w->pieces[w->piece_count] = (piece){line, (uint32_t)w->piece_count, digest};
        w->piece_count++;
    }
}

static void read_lines(walker *w, const function *f, uint32_t line) {
    size_t difference_count = read_number(w);
    const int8_t *differences = (const int8_t *)w->at;
    w->at += difference_count;
    size_t absolute_count = read_number(w);
    uint32_t last = 0;
    uint64_t digest = 0;
    for (size_t i = 0; i < difference_count && i < f->code_count && f->constants != NULL; i++) {
        if (differences[i] != NO_LINE_DIFFERENCE) {
            line += (uint32_t)differences[i];
        } else if (absolute_count > 0) {
            absolute_count--;
            read_number(w);  // the instruction's number
            line = (uint32_t)read_number(w);
        }
        if (line != last && digest != 0) add_piece(w, last, digest);
        if (line != last) digest = 1;
        last = line;
        digest = mix(digest, digest_of_instruction(f, i));
    }
    if (digest != 0) add_piece(w, last, digest);
    for (; absolute_count > 0; absolute_count--) {
        read_number(w);
        read_number(w);
    }
}

static int compare_pieces(const void *left, const void *right) {
    const piece *a = left, *b = right;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

// Combines the pieces of each line. Returns the number of lines; the pieces are then one for each.
static size_t combine_pieces(walker *w) {
    if (w->piece_count == 0) return 0;
    qsort(w->pieces, w->piece_count, sizeof *w->pieces, compare_pieces);
    size_t count = 1;
    for (size_t i = 1; i < w->piece_count; i++) {
        piece *last = &w->pieces[count - 1];
        if (w->pieces[i].line == last->line)
            last->digest = mix(last->digest, w->pieces[i].digest);
        else
            w->pieces[count++] = w->pieces[i];
    }
    return count;
}

// MARK: functions

static void skip_locals(walker *w) {
    for (size_t i = read_number(w); i > 0; i--) {
        read_text(w);
        read_number(w);
        read_number(w);
    }
}

// Reads the names of the upvalues into `names`, which has room for MAX_UPVALUES, unless `names` is NULL. Returns the number of names.
static size_t read_upvalue_names(walker *w, graph_text *names) {
    size_t count = read_number(w);
    for (size_t i = 0; i < count; i++) {
        graph_text name = read_text(w);
        if (names != NULL && i < MAX_UPVALUES) names[i] = name;
    }
    return count < MAX_UPVALUES ? count : MAX_UPVALUES;
}

// The check of the dump has limited the depth of nested functions.
static size_t walk_function(walker *w, graph_text *names) {
    read_text(w);  // the source
    uint32_t line = (uint32_t)read_number(w);
    read_number(w);  // the last line
    const uint8_t *counted = w->at;  // from here on, all bytes count: parameters, varargs, stack size
    w->at += 3;
    function f = {.code_count = read_number(w)};
    f.code = w->at;
    w->at += f.code_count * sizeof(uint32_t);
    read_constants(w, &f);
    w->at += 3 * read_number(w);  // the descriptions of upvalues
    size_t nested_count = read_number(w);
    hash(w, counted, (size_t)(w->at - counted));
    for (size_t i = 0; i < nested_count; i++) walk_function(w, NULL);
    read_lines(w, &f, line);
    skip_locals(w);
    for (size_t i = 0; i < f.code_count && f.constants != NULL; i++) note_required(w, &f, i, w->at);
    free(f.constants);
    return read_upvalue_names(w, names);
}

// Puts everything into one block, which the code can free.
static code_key *pack(const walker *w, const graph_text *names, size_t name_count, size_t line_count) {
    size_t size = sizeof(code_key) + line_count * sizeof(clua_line) + (name_count + w->required_count) * sizeof(graph_text);
    code_key *key = malloc(size);
    if (key == NULL) return NULL;
    XXH128_hash_t digest = XXH3_128bits_digest(w->state);
    graph_text *texts = (graph_text *)(key + 1);
    clua_line *lines = (clua_line *)(texts + name_count + w->required_count);
    if (name_count > 0) memcpy(texts, names, name_count * sizeof *texts);
    if (w->required_count > 0) memcpy(texts + name_count, w->required, w->required_count * sizeof *texts);
    for (size_t i = 0; i < line_count; i++) lines[i] = (clua_line){w->pieces[i].line, w->pieces[i].digest};
    *key = (code_key){.digest = {digest.low64, digest.high64}, .lines = lines, .upvalue_names = texts, .required = texts + name_count,
                      .line_count = line_count, .upvalue_name_count = name_count, .required_count = w->required_count};
    return key;
}

static code_key *make(const struct clua_code *code) {
    graph_text names[MAX_UPVALUES];
    walker w = {.at = code->dump + PREAMBLE_COUNT + 1, .state = XXH3_createState()};
    if (w.state == NULL) return NULL;
    XXH3_128bits_reset(w.state);
    size_t name_count = walk_function(&w, names);
    code_key *key = w.no_memory ? NULL : pack(&w, names, name_count, combine_pieces(&w));
    free(w.pieces);
    free(w.required);
    XXH3_freeState(w.state);
    return key;
}

const code_key *code_key_of(struct clua_code *code) {
    void *known = atomic_load_explicit(&code->key, memory_order_acquire);
    if (known != NULL) return known;
    code_key *made = make(code);
    if (made == NULL) return NULL;
    // Another thread may have been faster.
    if (atomic_compare_exchange_strong_explicit(&code->key, &known, made, memory_order_acq_rel, memory_order_acquire)) return made;
    free(made);
    return known;
}
