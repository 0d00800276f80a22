// Visiting the values of a graph, and naming the parts and objects there. Nothing here raises.
#ifndef CLUA_WALK_H
#define CLUA_WALK_H

#include "Keys/code_key.h"
#include "Keys/digest.h"
#include "Keys/graph.h"
#include "Transfer/pointer_map.h"

/// A part of the key while it is computed.
typedef struct part {
    char *label;
    char *path;         // the beginning of the names of functions in it: "handlers" for "function 'handlers.run'"
    uint64_t identity;  // a digest of the label
    graph_value value;  // a function, an upvalue's cell, or any other value
    clua_digest digest;
    uint32_t node_count;  // nodes that were first met in it
} part;

/// The place where a node was first met: 1 + the number of the part, or 0 if it was not met; and the node's number there.
typedef struct place {
    uint32_t part, number;
} place;

/// A node whose items are being visited. The items are in the graph's values, or else in `items` of the walker, from `first` on.
typedef struct frame {
    size_t first, count, next;
    uint32_t sequence;  // of a table: the number of items before keys and values begin to take turns
    bool is_own, is_table, has_metatable;
} frame;

typedef struct walker {
    const graph *graph;
    const uint64_t *contents;
    uint64_t version;   // the first number of each digest
    uint64_t *colours;  // NULL until a table needs them
    digester digester;
    part *parts;
    place *places;      // by node
    frame *frames;
    graph_value *items;
    pointer_map labels; // the number of parts that wanted a label, by its digest
    clua_met *met;
    char **modules;
    pointer_map module_names;
    size_t part_count, part_capacity, frame_count, frame_capacity, item_count, item_capacity, met_count, met_capacity, module_count,
        module_capacity;
    size_t current;     // the part that is being visited
    bool failed;        // memory ran out
} walker;

/// Adds a part with this value. Consumes `label` and `path`, which come from malloc, and may be NULL if memory ran out. A label that another part
/// has gets a number. Returns the number of the part.
size_t walk_add_part(walker *w, char *label, char *path, graph_value value);

/// Visits all parts, and those that the visits add.
void walk_parts(walker *w);

/// "upvalue 'x' of function 'f'.a[2]": where the walker is.
char *walk_path(const walker *w, const char *start);

/// A text from malloc; sets `failed` and returns NULL if memory runs out. `format` may have only %s and %u: `vasprintf` would take half of the
/// time of a key.
char *walk_text(walker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
