// The parts of a function's code that count for a key. Nothing here raises.
#ifndef CLUA_CODE_KEY_H
#define CLUA_CODE_KEY_H

#include "Keys/graph.h"
#include "Transfer/code.h"

/// Belongs to the code. Texts point into its dump.
typedef struct code_key {
    clua_digest digest;  // of instructions and constants, nested functions included; debug information does not count
    const clua_line *lines;
    const graph_text *upvalue_names;  // none without debug information
    const graph_text *required;  // the names in `require "NAME"`
    size_t line_count, upvalue_name_count, required_count;
} code_key;

/// The key, which is computed once for each code. NULL if memory runs out. Any thread.
const code_key *code_key_of(struct clua_code *code);

#endif
