#include "Keys/order.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "Keys/code_key.h"

size_t order_entry_count(const graph *g, const graph_node *node) {
    size_t count = node->pairs;
    for (uint32_t at = node->added; at != 0; at = g->added[at - 1].next) count++;
    return count;
}

static graph_value integer(uint64_t number) { return (graph_value){.kind = VALUE_INTEGER, .integer = (int64_t)number}; }

// MARK: entries

// The first bytes as a number, so that most comparisons need not read the string.
static uint64_t beginning_of(graph_text text) {
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof number; i++) number = number << 8 | (i < text.count ? (uint8_t)text.bytes[i] : 0);
    return number;
}

static ordered_entry entry_of(const graph *g, graph_value key, graph_value value, const uint64_t *colours) {
    // A float key has no integral value: Lua turns such keys into integers.
    ordered_entry entry = {.key = key, .value = value, .rank = key.kind};
    switch (key.kind) {
    case VALUE_INTEGER: entry.number = (uint64_t)key.integer ^ UINT64_C(1) << 63; break;
    case VALUE_FLOAT: entry.number = key.bits; break;
    case VALUE_STRING:
        entry.text = g->texts[key.index];
        entry.number = beginning_of(entry.text);
        break;
    case VALUE_NAMED:
        entry.text = g->texts[key.index];
        if (key.field != 0) entry.field = g->texts[key.field - 1];
        break;
    case VALUE_NODE: entry.number = colours != NULL ? colours[key.index] : 0; break;
    default: break;
    }
    return entry;
}

static int compare_texts(graph_text left, graph_text right) {
    size_t count = left.count < right.count ? left.count : right.count;
    int order = count == 0 ? 0 : memcmp(left.bytes, right.bytes, count);
    if (order != 0) return order;
    return left.count < right.count ? -1 : left.count > right.count;
}

static int compare_entries(const void *left, const void *right) {
    const ordered_entry *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    int order = compare_texts(a->text, b->text);
    return order != 0 ? order : compare_texts(a->field, b->field);
}

size_t order_entries(const graph *g, const graph_node *node, const uint64_t *colours, ordered_entry *entries) {
    size_t count = 0, first = node->first;
    for (uint32_t i = 0; i < node->count; i++) {
        // A value that is rebuilt later is among the further entries. It has nil in its place here, and among the pairs.
        if (g->values[first + i].kind != VALUE_NIL) entries[count++] = entry_of(g, integer(i + 1), g->values[first + i], colours);
    }
    first += node->count;
    for (uint32_t i = 0; i < node->pairs; i++)
        if (g->values[first + 2 * i + 1].kind != VALUE_NIL)
            entries[count++] = entry_of(g, g->values[first + 2 * i], g->values[first + 2 * i + 1], colours);
    for (uint32_t at = node->added; at != 0; at = g->added[at - 1].next)
        entries[count++] = entry_of(g, g->added[at - 1].key, g->added[at - 1].value, colours);
    if (count > 1) qsort(entries, count, sizeof *entries, compare_entries);
    return count;
}

bool order_needs_colours(const graph *g, const graph_node *node) {
    size_t count = 0, first = node->first + node->count;
    for (uint32_t i = 0; i < node->pairs && count < 2; i++) count += g->values[first + 2 * i].kind == VALUE_NODE;
    for (uint32_t at = node->added; at != 0 && count < 2; at = g->added[at - 1].next) count += g->added[at - 1].key.kind == VALUE_NODE;
    return count > 1;
}

// MARK: colours

// The colours are refined as in the test of Weisfeiler and Leman: each round adds to a node's colour those of its neighbours, in both
// directions, as sums, which have no order.

// The most work, in visits of nodes: a second or two. Keys whose colours are equal even then have no fixed order.
#define MOST_WORK (UINT64_C(1) << 24)

typedef struct colouring {
    const graph *graph;
    uint64_t *now, *sums;
} colouring;

enum edge { EDGE_ENTRY = 1, EDGE_ENTRY_KEY, EDGE_ENTRY_VALUE, EDGE_PART, EDGE_PART_OF, EDGE_ROOT, PLAIN };

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uint64_t words[4] = {a, b, c, d};
    return XXH3_64bits(words, sizeof words);
}

static uint64_t text_colour(const graph *g, uint64_t text) { return XXH3_64bits(g->texts[text].bytes, g->texts[text].count); }

static uint64_t colour_of(const colouring *c, graph_value value) {
    switch (value.kind) {
    case VALUE_INTEGER:
    case VALUE_FLOAT: return mix(PLAIN, value.kind, value.bits, 0);
    case VALUE_STRING: return mix(PLAIN, value.kind, text_colour(c->graph, value.index), 0);
    case VALUE_NAMED:
        return mix(PLAIN, value.kind, text_colour(c->graph, value.index), value.field != 0 ? text_colour(c->graph, value.field - 1) : 0);
    case VALUE_NODE: return c->now[value.index];
    default: return mix(PLAIN, value.kind, 0, 0);
    }
}

static void add(colouring *c, graph_value to, uint64_t colour) {
    if (to.kind == VALUE_NODE) c->sums[to.index] += colour;
}

static void add_entry(colouring *c, size_t node, graph_value key, graph_value value) {
    uint64_t keys = colour_of(c, key), values = colour_of(c, value);
    c->sums[node] += mix(EDGE_ENTRY, keys, values, 0);
    add(c, key, mix(EDGE_ENTRY_KEY, c->now[node], values, 0));
    add(c, value, mix(EDGE_ENTRY_VALUE, c->now[node], keys, 0));
}

static void add_part(colouring *c, size_t node, uint64_t number, graph_value part) {
    c->sums[node] += mix(EDGE_PART, number, colour_of(c, part), 0);
    add(c, part, mix(EDGE_PART_OF, number, c->now[node], 0));
}

// The parts of a node that have a place of their own, besides entries.
static size_t part_count(const graph_node *node) {
    switch (node->kind) {
    case NODE_FUNCTION: return node->count;
    case NODE_CLASS: return 2;
    case NODE_TABLE:
    case NODE_ENVIRONMENT: return 0;
    default: return 1;
    }
}

static void refine(colouring *c) {
    const graph *g = c->graph;
    memset(c->sums, 0, g->node_count * sizeof *c->sums);
    for (uint32_t i = 0; i < g->root_count; i++) add(c, g->roots[i], mix(EDGE_ROOT, i, 0, 0));
    for (size_t i = 0; i < g->node_count; i++) {
        const graph_node *node = &g->nodes[i];
        size_t count = part_count(node), first = node->first + node->count;
        for (size_t j = 0; j < count; j++) add_part(c, i, j + 1, g->values[node->first + j]);
        for (size_t j = 0; node->kind == NODE_TABLE && j < node->count; j++) add_entry(c, i, integer(j + 1), g->values[node->first + j]);
        for (size_t j = 0; j < node->pairs; j++) add_entry(c, i, g->values[first + 2 * j], g->values[first + 2 * j + 1]);
        for (uint32_t at = node->added; at != 0; at = g->added[at - 1].next) add_entry(c, i, g->added[at - 1].key, g->added[at - 1].value);
        if (node->metatable.kind != VALUE_NIL) add_part(c, i, 0, node->metatable);
    }
    for (size_t i = 0; i < g->node_count; i++) c->now[i] = mix(c->now[i], c->sums[i], 0, 0);
}

static int compare_colours(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

// The number of different colours among `count` nodes: those in `nodes`, or all. Uses the sums as room.
static size_t distinct_colours(colouring *c, const uint32_t *nodes, size_t count) {
    size_t distinct = count > 0;
    for (size_t i = 0; i < count; i++) c->sums[i] = c->now[nodes != NULL ? nodes[i] : i];
    qsort(c->sums, count, sizeof *c->sums, compare_colours);
    for (size_t i = 1; i < count; i++) distinct += c->sums[i] != c->sums[i - 1];
    return distinct;
}

// The nodes that are keys. `keys` has room for all nodes.
static size_t find_keys(const graph *g, uint32_t *keys) {
    size_t count = 0, made = 0;
    for (size_t i = 0; i < g->node_count; i++) keys[i] = 0;
    for (size_t i = 0; i < g->node_count; i++) {
        const graph_node *node = &g->nodes[i];
        size_t first = node->first + node->count;
        for (size_t j = 0; j < node->pairs; j++)
            if (g->values[first + 2 * j].kind == VALUE_NODE) keys[g->values[first + 2 * j].index] = 1;
        for (uint32_t at = node->added; at != 0; at = g->added[at - 1].next)
            if (g->added[at - 1].key.kind == VALUE_NODE) keys[g->added[at - 1].key.index] = 1;
    }
    for (; made < g->node_count; made++)
        if (keys[made] != 0) keys[count++] = (uint32_t)made;
    return count;
}

// False if memory runs out.
static bool set_first_colour(colouring *c, size_t index, const uint64_t *contents) {
    const graph_node *node = &c->graph->nodes[index];
    uint64_t number = node->kind == NODE_REBUILT ? node->number : 0;
    if (node->kind == NODE_CLASS) number = text_colour(c->graph, node->number);
    if (node->kind == NODE_REFERENCE && contents != NULL) number = contents[node->number];
    if (node->kind == NODE_FUNCTION) {
        const code_key *key = code_key_of(clua_parcel_code(c->graph->parcel, node->number));
        if (key == NULL) return false;
        number = key->digest.low;
    }
    c->now[index] = mix(node->kind, number, 0, 0);
    return true;
}

// Refines until all keys have different colours, or the number of colours no longer grows.
static void refine_all(colouring *c, uint32_t *keys) {
    size_t count = c->graph->node_count, key_count = find_keys(c->graph, keys);
    size_t distinct = distinct_colours(c, NULL, count);
    // The amount of work must not depend on the order of tables in the parcel.
    uint64_t work = 0;
    for (size_t round = 1; work < MOST_WORK; round++, work += count) {
        refine(c);
        if ((round & (round - 1)) != 0) continue;
        if (distinct_colours(c, keys, key_count) == key_count) break;
        size_t now = distinct_colours(c, NULL, count);
        if (now == distinct) break;
        distinct = now;
    }
}

uint64_t *order_colours(const graph *g, const uint64_t *contents) {
    uint64_t *colours = malloc((2 * g->node_count + 1) * sizeof *colours);
    uint32_t *keys = malloc((g->node_count + 1) * sizeof *keys);
    bool is_made = colours != NULL && keys != NULL;
    colouring c = {g, colours, is_made ? colours + g->node_count : NULL};
    for (size_t i = 0; i < g->node_count && is_made; i++) is_made = set_first_colour(&c, i, contents);
    if (is_made) refine_all(&c, keys);
    free(keys);
    if (is_made) return colours;
    free(colours);
    return NULL;
}
