// The values of a parcel as a graph. Nothing here raises.
#ifndef CLUA_GRAPH_H
#define CLUA_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

typedef enum value_kind {
    VALUE_NIL,
    VALUE_FALSE,
    VALUE_TRUE,
    VALUE_INTEGER,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_NAMED,  // travels by name: a module, or a field of one
    VALUE_NODE
} value_kind;

typedef struct graph_value {
    uint32_t kind;
    uint32_t field;  // NAMED: 1 + index of the text with the key, or 0 for the module itself
    union {
        int64_t integer;
        uint64_t bits;  // FLOAT: as in memory
        uint64_t index;  // STRING, NAMED: of the text; NODE: of the node
    };
} graph_value;

/// A string, in the parcel.
typedef struct graph_text {
    const char *bytes;
    size_t count;
} graph_text;

typedef enum node_kind {
    NODE_TABLE,
    NODE_FUNCTION,
    NODE_CELL,         // an upvalue, which functions may share
    NODE_ENVIRONMENT,  // a global table; its entries are those that differ from a fresh one
    NODE_REFERENCE,    // an object of the host
    NODE_CLASS,
    NODE_REBUILT       // the result of a function of the script
} node_kind;

typedef struct graph_node {
    node_kind kind;
    uint32_t number;  // FUNCTION: of the code; REFERENCE: of the reference; CLASS: of the text with the name; REBUILT: number of values
    size_t first;     // index in `values`: TABLE: values at 1, 2, 3 …, then keys and values in turn; FUNCTION: cells; CELL: its value;
                      // CLASS: superclass and contents; REFERENCE: its class; REBUILT: the table of function and arguments
    uint32_t count;   // TABLE: of the values at 1, 2, 3 …; FUNCTION: of the cells
    uint32_t pairs;
    uint32_t added;   // TABLE, ENVIRONMENT: list of further entries: 1 + index in `added`, or 0
    bool is_complete;
    bool is_frozen;   // TABLE
    graph_value metatable;
} graph_node;

typedef struct graph_entry {
    graph_value key, value;
    uint32_t next;  // 1 + index, or 0
} graph_entry;

typedef struct graph {
    const clua_parcel *parcel;
    graph_value *roots;  // the values; then a table of the script's changes of modules, if there are any
    uint32_t root_count;
    graph_node *nodes;
    graph_value *values;
    graph_text *texts;
    graph_entry *added;
    size_t node_count, node_capacity, value_count, value_capacity, text_count, text_capacity, added_count, added_capacity;
} graph;

/// Parses a parcel. Its bytes need not be trusted. The graph refers to the parcel, and owns nothing unless the status is CLUA_KEY_MADE.
clua_key_status graph_make(const clua_parcel *parcel, graph *graph);
void graph_free(graph *graph);

/// Makes room for `count` more items of an array. Returns false, and changes nothing, if memory runs out.
bool graph_reserve(void **items, size_t used, size_t *capacity, size_t count, size_t size);

static inline bool is_node_of(const graph *graph, graph_value value, node_kind kind) {
    return value.kind == VALUE_NODE && graph->nodes[value.index].kind == kind;
}

#endif
