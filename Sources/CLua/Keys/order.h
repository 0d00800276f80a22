// The order in which the entries of a table count. Nothing here raises.
#ifndef CLUA_ORDER_H
#define CLUA_ORDER_H

#include "Keys/graph.h"

/// A number for each node that stands for its contents and its place in the graph, in any order of tables. Equal nodes have equal numbers;
/// different nodes have different numbers, except for some that differ only far away. NULL if memory runs out. `contents` is that of
/// clua_key_make.
uint64_t *order_colours(const graph *graph, const uint64_t *contents);

/// An entry, with the values that decide its place.
typedef struct ordered_entry {
    graph_value key, value;
    uint64_t rank;  // kinds of keys
    uint64_t number;  // decides among keys of one kind; the first bytes of a string
    graph_text text, field;  // decide among strings and names with one number
} ordered_entry;

/// Whether the order of a node's entries needs the colours: two of its keys are nodes.
bool order_needs_colours(const graph *graph, const graph_node *node);

/// Writes the entries of a table or an environment in their order, with the values at 1, 2, 3 … among them. There must be room for all. `colours`
/// may be NULL if they are not needed. Returns the number of entries.
size_t order_entries(const graph *graph, const graph_node *node, const uint64_t *colours, ordered_entry *entries);

/// The number of entries besides the values at 1, 2, 3 ….
size_t order_entry_count(const graph *graph, const graph_node *node);

#endif
