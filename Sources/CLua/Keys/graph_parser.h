// Shared by the files that make a graph of a parcel. Nothing here raises.
#ifndef CLUA_GRAPH_PARSER_H
#define CLUA_GRAPH_PARSER_H

#include "Keys/graph.h"
#include "Processes/message.h"
#include "Transfer/frozen.h"
#include "Transfer/pointer_map.h"

typedef struct frozen_entry {
    const frozen_table *table;
    uint32_t node;
} frozen_entry;

typedef struct parser {
    graph *graph;
    message_reader reader;
    bool no_memory;
    uint32_t *objects;  // nodes by ordinal
    uint32_t *strings;  // texts by the number that later references use
    uint32_t *environments;  // node by number
    size_t object_count, object_capacity, string_count, string_capacity, environment_count, environment_capacity;
    pointer_map references;  // node by object
    pointer_map frozen;      // node by table
    frozen_entry *pending;   // frozen tables whose nodes are empty
    size_t pending_count, pending_capacity;
    bool is_unstable;        // a frozen value contains a value that has no key
} parser;

static const graph_value nothing = {.kind = VALUE_NIL};

static inline graph_value node_value(uint32_t node) { return (graph_value){.kind = VALUE_NODE, .index = node}; }
static inline graph_value text_value(uint32_t text) { return (graph_value){.kind = VALUE_STRING, .index = text}; }

/// Ends the parsing. Further reads do no harm.
void parser_fail(parser *p);

/// Makes room for `count` more items of an array of the graph or the parser. Returns false if this, or an earlier step, has failed.
bool parser_reserve(parser *p, void *items, size_t used, size_t *capacity, size_t count, size_t size);

/// Adds a text or a node. Returns 0 on failure.
uint32_t parser_add_text(parser *p, const char *bytes, size_t count);
uint32_t parser_add_node(parser *p, graph_node node);

/// Parses the number of a frozen value. Returns the node of its table.
graph_value parse_frozen(parser *p);

#endif
