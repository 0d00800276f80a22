// Frozen values in a parcel, whose tables are nodes like others.
#include <string.h>

#include "Keys/graph_parser.h"

// The node of a frozen table. The node gets its entries later, because tables may be nested deeply.
static graph_value frozen_node(parser *p, const frozen_table *table) {
    bool found;
    pointer_entry *entry = pointer_map_get(&p->frozen, table, &found);
    if (entry == NULL) {
        p->no_memory = true;
        parser_fail(p);
        return nothing;
    }
    if (!found) {
        entry->number = parser_add_node(p, (graph_node){.kind = NODE_TABLE, .is_complete = true, .is_frozen = true});
        if (parser_reserve(p, (void **)&p->pending, p->pending_count, &p->pending_capacity, 1, sizeof *p->pending))
            p->pending[p->pending_count++] = (frozen_entry){table, entry->number};
    }
    return node_value(entry->number);
}

static uint32_t add_frozen_text(parser *p, const frozen_string *string) { return parser_add_text(p, string->bytes, string->count); }

static graph_value frozen_value_of(parser *p, const frozen_value *value) {
    switch (value->tag) {
    case FROZEN_NIL: return nothing;
    case FROZEN_FALSE: return (graph_value){.kind = VALUE_FALSE};
    case FROZEN_TRUE: return (graph_value){.kind = VALUE_TRUE};
    case FROZEN_INTEGER: return (graph_value){.kind = VALUE_INTEGER, .integer = value->integer};
    case FROZEN_FLOAT: {
        graph_value number = {.kind = VALUE_FLOAT};
        memcpy(&number.bits, &value->number, sizeof number.bits);
        return number;
    }
    case FROZEN_STRING: return text_value(add_frozen_text(p, value->string));
    case FROZEN_TABLE: return frozen_node(p, value->table);
    case FROZEN_NAMED: {
        uint32_t module = add_frozen_text(p, value->leaf->module);
        uint32_t field = value->leaf->field != NULL ? 1 + add_frozen_text(p, value->leaf->field) : 0;
        return (graph_value){.kind = VALUE_NAMED, .field = field, .index = module};
    }
    default:
        p->is_unstable = true;
        parser_fail(p);
        return nothing;
    }
}

static void fill_frozen(parser *p, frozen_entry entry) {
    graph *g = p->graph;
    const frozen_table *table = entry.table;
    size_t count = table->element_count + 2 * (size_t)table->pair_count, first = g->value_count;
    if (!parser_reserve(p, (void **)&g->values, g->value_count, &g->value_capacity, count, sizeof *g->values)) return;
    g->value_count += count;
    for (size_t i = 0; i < count; i++) g->values[first + i] = nothing;
    graph_node *node = &g->nodes[entry.node];
    node->first = first;
    node->count = table->element_count;
    node->pairs = table->pair_count;
    for (size_t i = 0; i < count && !p->reader.failed; i++) {
        size_t pair = (i - table->element_count) / 2;
        bool is_key = (i - table->element_count) % 2 == 0;
        const frozen_value *value = i < table->element_count ? &table->elements[i] : is_key ? &table->pairs[pair].key : &table->pairs[pair].value;
        g->values[first + i] = frozen_value_of(p, value);
    }
}

graph_value parse_frozen(parser *p) {
    uint64_t number = message_count(&p->reader, clua_parcel_frozen_count(p->graph->parcel));
    if (p->reader.failed) return nothing;
    graph_value root = frozen_node(p, clua_parcel_frozen(p->graph->parcel, number));
    while (p->pending_count > 0 && !p->reader.failed) fill_frozen(p, p->pending[--p->pending_count]);
    return root;
}
