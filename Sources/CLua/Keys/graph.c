#include "Keys/graph_parser.h"

#include <stdlib.h>
#include <string.h>

bool graph_reserve(void **items, size_t used, size_t *capacity, size_t count, size_t size) {
    if (*capacity - used >= count) return true;
    size_t wanted = 2 * *capacity + count + 8;
    void *grown = wanted > SIZE_MAX / size ? NULL : realloc(*items, wanted * size);
    if (grown == NULL) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

void parser_fail(parser *p) {
    p->reader.failed = true;
    p->reader.next = p->reader.end;
}

bool parser_reserve(parser *p, void *items, size_t used, size_t *capacity, size_t count, size_t size) {
    if (p->reader.failed) return false;
    if (graph_reserve(items, used, capacity, count, size)) return true;
    p->no_memory = true;
    parser_fail(p);
    return false;
}

// MARK: parts

uint32_t parser_add_text(parser *p, const char *bytes, size_t count) {
    graph *g = p->graph;
    if (!parser_reserve(p, (void **)&g->texts, g->text_count, &g->text_capacity, 1, sizeof *g->texts)) return 0;
    g->texts[g->text_count] = (graph_text){bytes, count};
    return (uint32_t)g->text_count++;
}

static uint32_t parse_text(parser *p) {
    size_t count;
    const char *bytes = message_string(&p->reader, &count);
    return parser_add_text(p, bytes, count);
}

// Returns the index of the first of `count` values, all nil. Each takes at least one byte of the parcel.
static size_t add_values(parser *p, uint64_t count) {
    graph *g = p->graph;
    if (count > (uint64_t)(p->reader.end - p->reader.next) + 2) parser_fail(p);
    if (!parser_reserve(p, (void **)&g->values, g->value_count, &g->value_capacity, count, sizeof *g->values)) return 0;
    size_t first = g->value_count;
    for (size_t i = 0; i < count; i++) g->values[first + i] = nothing;
    g->value_count += count;
    return first;
}

// Returns 0 if that has failed. Later additions then do no harm.
uint32_t parser_add_node(parser *p, graph_node node) {
    graph *g = p->graph;
    if (!parser_reserve(p, (void **)&g->nodes, g->node_count, &g->node_capacity, 1, sizeof *g->nodes)) return 0;
    g->nodes[g->node_count] = node;
    return (uint32_t)g->node_count++;
}

// Adds a node that has an ordinal.
static uint32_t add_object(parser *p, graph_node node) {
    uint32_t number = parser_add_node(p, node);
    if (parser_reserve(p, (void **)&p->objects, p->object_count, &p->object_capacity, 1, sizeof *p->objects))
        p->objects[p->object_count++] = number;
    return number;
}

// Returns a node that the parcel refers to by its ordinal; NULL if that has failed.
static graph_node *parse_object(parser *p, uint32_t *number) {
    uint64_t ordinal = message_count(&p->reader, p->object_count);
    if (p->reader.failed) return NULL;
    *number = p->objects[ordinal];
    return &p->graph->nodes[*number];
}

static graph_value parse_value(parser *p, int depth);

// MARK: tables

static bool is_key(graph_value key) {
    if (key.kind != VALUE_FLOAT) return key.kind != VALUE_NIL;
    double number;
    memcpy(&number, &key.bits, sizeof number);
    return number == number;
}

static void parse_table_body(parser *p, uint32_t table, int depth) {
    uint32_t counts[2] = {0, 0};
    const uint8_t *bytes = message_bytes(&p->reader, sizeof counts);
    if (bytes == NULL) return;
    memcpy(counts, bytes, sizeof counts);
    counts[0] &= ~CLUA_NO_ARRAY_PART;
    size_t first = add_values(p, (uint64_t)counts[0] + 2 * (uint64_t)counts[1]);
    if (p->reader.failed) return;
    graph_node *node = &p->graph->nodes[table];
    node->first = first;
    node->count = counts[0];
    node->pairs = counts[1];
    node->is_complete = true;
    size_t count = (size_t)counts[0] + 2 * (size_t)counts[1];
    for (size_t i = 0; i < count && !p->reader.failed; i++) {
        graph_value value = parse_value(p, depth);
        // Two nils are a pair that is rebuilt later.
        bool is_pair = i >= counts[0], is_value = is_pair && (i - counts[0]) % 2 == 1;
        if (is_value && p->graph->values[first + i - 1].kind == VALUE_NIL && value.kind != VALUE_NIL) parser_fail(p);
        if (is_pair && !is_value && value.kind != VALUE_NIL && !is_key(value)) parser_fail(p);
        p->graph->values[first + i] = value;
    }
    uint8_t kind = message_byte(&p->reader);
    if (kind == CLUA_NO_METATABLE) return;
    graph_value metatable = parse_value(p, depth);
    if (kind > CLUA_METATABLE || p->reader.failed || (metatable.kind != VALUE_NODE && metatable.kind != VALUE_NAMED)) return parser_fail(p);
    p->graph->nodes[table].metatable = metatable;
}

static uint32_t parse_table(parser *p, int depth) {
    uint32_t table = add_object(p, (graph_node){.kind = NODE_TABLE});
    parse_table_body(p, table, depth + 1);
    return table;
}

static graph_value parse_table_later(parser *p) {
    message_varint(&p->reader);  // the body has the places of the array part, too
    message_varint(&p->reader);
    return node_value(add_object(p, (graph_node){.kind = NODE_TABLE}));
}

// Adds an entry to the table or environment.
static void add_entry(parser *p, uint32_t node, graph_value key, graph_value value) {
    graph *g = p->graph;
    if (!parser_reserve(p, (void **)&g->added, g->added_count, &g->added_capacity, 1, sizeof *g->added)) return;
    g->added[g->added_count] = (graph_entry){key, value, g->nodes[node].added};
    g->nodes[node].added = (uint32_t)++g->added_count;
}

// MARK: functions

static graph_value parse_cell_again(parser *p) {
    message_byte(&p->reader);
    uint32_t number;
    const graph_node *function = parse_object(p, &number);
    uint64_t upvalue = message_varint(&p->reader);
    if (p->reader.failed || function->kind != NODE_FUNCTION || upvalue < 1 || upvalue > function->count) {
        parser_fail(p);
        return nothing;
    }
    graph_value cell = p->graph->values[function->first + upvalue - 1];
    if (cell.kind != VALUE_NODE) parser_fail(p);
    return cell;
}

static void parse_upvalues(parser *p, uint32_t function, int depth) {
    const struct clua_code *code = clua_parcel_code(p->graph->parcel, p->graph->nodes[function].number);
    uint32_t count = (uint32_t)code->upvalue_count;
    size_t first = add_values(p, count);
    if (p->reader.failed) return;
    graph_node *node = &p->graph->nodes[function];
    node->first = first;
    node->count = count;
    node->is_complete = true;
    for (uint32_t i = 0; i < count && !p->reader.failed; i++) {
        if (p->reader.next < p->reader.end && *p->reader.next == CLUA_TAG_UPVALUE_AGAIN) {
            graph_value cell = parse_cell_again(p);
            p->graph->values[first + i] = cell;
            continue;
        }
        size_t value_at = add_values(p, 1);
        uint32_t cell = parser_add_node(p, (graph_node){.kind = NODE_CELL, .first = value_at, .is_complete = true});
        if (p->reader.failed) return;
        // Before the value, which may refer to the cell.
        p->graph->values[first + i] = node_value(cell);
        graph_value value = parse_value(p, depth);
        if (!p->reader.failed) p->graph->values[value_at] = value;
    }
}

static uint32_t parse_function(parser *p) {
    uint64_t code = message_count(&p->reader, clua_parcel_code_count(p->graph->parcel));
    return add_object(p, (graph_node){.kind = NODE_FUNCTION, .number = (uint32_t)code});
}

static graph_value parse_environment(parser *p) {
    // That of the first function is number 0. The others are numbered in the order in which they come.
    uint64_t number = message_count(&p->reader, p->environment_count + 8);
    while (p->environment_count <= number) {
        if (!parser_reserve(p, (void **)&p->environments, p->environment_count, &p->environment_capacity, 1, sizeof *p->environments))
            return nothing;
        uint32_t node = parser_add_node(p, (graph_node){.kind = NODE_ENVIRONMENT, .is_complete = true});
        p->environments[p->environment_count++] = node;
    }
    return p->reader.failed ? nothing : node_value(p->environments[number]);
}

// MARK: other objects

static graph_value parse_reference(parser *p) {
    uint64_t number = message_count(&p->reader, clua_parcel_reference_count(p->graph->parcel));
    if (p->reader.failed) return nothing;
    bool found;
    pointer_entry *entry = pointer_map_get(&p->references, clua_parcel_reference(p->graph->parcel, number)->object, &found);
    if (entry == NULL) {
        p->no_memory = true;
        parser_fail(p);
        return nothing;
    }
    if (!found) {
        size_t class_at = add_values(p, 1);
        entry->number = parser_add_node(p, (graph_node){.kind = NODE_REFERENCE, .number = (uint32_t)number, .first = class_at, .is_complete = true});
    }
    return node_value(entry->number);
}

static graph_value parse_instance(parser *p, int depth) {
    graph_value instance = parse_reference(p);
    graph_value class = parse_value(p, depth);
    if (p->reader.failed || !is_node_of(p->graph, class, NODE_CLASS)) {
        parser_fail(p);
        return nothing;
    }
    p->graph->values[p->graph->nodes[instance.index].first] = class;
    return instance;
}

static graph_value parse_named(parser *p, bool has_field) {
    uint32_t module = parse_text(p);
    uint32_t field = has_field ? 1 + parse_text(p) : 0;
    return (graph_value){.kind = VALUE_NAMED, .field = field, .index = module};
}

// MARK: values

static graph_value parse_counted_string(parser *p) {
    uint32_t text = parse_text(p);
    if (parser_reserve(p, (void **)&p->strings, p->string_count, &p->string_capacity, 1, sizeof *p->strings)) p->strings[p->string_count++] = text;
    return text_value(text);
}

static graph_value parse_string_again(parser *p) {
    uint64_t number = message_count(&p->reader, p->string_count);
    return p->reader.failed ? nothing : text_value(p->strings[number]);
}

static graph_value parse_shared_string(parser *p) {
    uint64_t number = message_count(&p->reader, clua_parcel_string_count(p->graph->parcel));
    if (p->reader.failed) return nothing;
    const clua_shared_string *string = clua_parcel_string(p->graph->parcel, number);
    return text_value(parser_add_text(p, string->bytes, string->count));
}

static graph_value parse_float(parser *p) {
    graph_value value = {.kind = VALUE_FLOAT};
    const uint8_t *bytes = message_bytes(&p->reader, sizeof value.bits);
    if (bytes != NULL) memcpy(&value.bits, bytes, sizeof value.bits);
    return value;
}

static graph_value parse_function_here(parser *p, int depth) {
    uint32_t function = parse_function(p);
    if (!p->reader.failed) parse_upvalues(p, function, depth + 1);
    return node_value(function);
}

static graph_value parse_class(parser *p) {
    message_count(&p->reader, clua_parcel_reference_count(p->graph->parcel));
    return node_value(add_object(p, (graph_node){.kind = NODE_CLASS}));
}

static graph_value parse_value(parser *p, int depth) {
    if (depth > CLUA_INLINE_DEPTH) parser_fail(p);
    uint32_t number = 0;
    uint8_t tag = message_byte(&p->reader);
    if (p->reader.failed) return nothing;
    switch (tag) {
    case CLUA_TAG_NIL: return nothing;
    case CLUA_TAG_FALSE: return (graph_value){.kind = VALUE_FALSE};
    case CLUA_TAG_TRUE: return (graph_value){.kind = VALUE_TRUE};
    case CLUA_TAG_INTEGER: return (graph_value){.kind = VALUE_INTEGER, .integer = message_signed(&p->reader)};
    case CLUA_TAG_FLOAT: return parse_float(p);
    case CLUA_TAG_STRING:
    case CLUA_TAG_STRING_KEPT: return parse_counted_string(p);
    case CLUA_TAG_STRING_AGAIN: return parse_string_again(p);
    case CLUA_TAG_STRING_SHARED: return parse_shared_string(p);
    case CLUA_TAG_TABLE:
    case CLUA_TAG_TABLE_KEPT: return node_value(parse_table(p, depth));
    case CLUA_TAG_TABLE_LATER: return parse_table_later(p);
    case CLUA_TAG_FUNCTION:
    case CLUA_TAG_FUNCTION_KEPT: return parse_function_here(p, depth);
    case CLUA_TAG_FUNCTION_LATER: return node_value(parse_function(p));
    case CLUA_TAG_OBJECT_AGAIN: return parse_object(p, &number) == NULL ? nothing : node_value(number);
    case CLUA_TAG_HANDLE: return parse_reference(p);
    case CLUA_TAG_FROZEN: return parse_frozen(p);
    case CLUA_TAG_INSTANCE: return parse_instance(p, depth + 1);
    case CLUA_TAG_CLASS: return parse_class(p);
    case CLUA_TAG_ENVIRONMENT: return parse_environment(p);
    case CLUA_TAG_MODULE:
    case CLUA_TAG_MODULE_FIELD: return parse_named(p, tag == CLUA_TAG_MODULE_FIELD);
    default: parser_fail(p); return nothing;
    }
}

// MARK: records

static void parse_body_record(parser *p) {
    uint32_t number;
    const graph_node *node = parse_object(p, &number);
    if (node == NULL || node->is_complete) return parser_fail(p);
    if (node->kind == NODE_TABLE)
        parse_table_body(p, number, 1);
    else if (node->kind == NODE_FUNCTION)
        parse_upvalues(p, number, 1);
    else
        parser_fail(p);
}

static void parse_class_record(parser *p) {
    uint32_t number;
    const graph_node *node = parse_object(p, &number);
    if (node == NULL || node->is_complete || node->kind != NODE_CLASS) return parser_fail(p);
    message_varint(&p->reader);  // the version, which is the number of changes so far
    uint32_t name = parse_text(p);
    size_t first = add_values(p, 2);
    graph_value superclass = parse_value(p, 1), contents = parse_value(p, 1);
    if (p->reader.failed) return;
    graph_node *class = &p->graph->nodes[number];
    class->number = name;
    class->first = first;
    class->is_complete = true;
    p->graph->values[first] = superclass;
    p->graph->values[first + 1] = contents;
}

static void parse_global_record(parser *p) {
    graph_value environment = parse_environment(p);
    graph_value name = text_value(parse_text(p)), value = parse_value(p, 0);
    if (!p->reader.failed) add_entry(p, (uint32_t)environment.index, name, value);
}

static void parse_rebuilt_record(parser *p) {
    uint32_t arguments;
    const graph_node *table = parse_object(p, &arguments);
    uint64_t count = message_varint(&p->reader);
    if (p->reader.failed || table->kind != NODE_TABLE || count == 0 || count > table->count) return parser_fail(p);
    size_t first = add_values(p, 1);
    add_object(p, (graph_node){.kind = NODE_REBUILT, .number = (uint32_t)count, .first = first, .is_complete = true});
    if (!p->reader.failed) p->graph->values[first] = node_value(arguments);
}

// The key of a change is a table of where it is.
static void add_change(parser *p, graph_value module, graph_value key, graph_value value) {
    graph *g = p->graph;
    if (!is_key(key)) return;
    if (g->root_count == g->parcel->value_count) {
        g->roots[g->root_count] = node_value(parser_add_node(p, (graph_node){.kind = NODE_TABLE, .is_complete = true}));
        if (!p->reader.failed) g->root_count++;
    }
    size_t first = add_values(p, 2);
    uint32_t place = parser_add_node(p, (graph_node){.kind = NODE_TABLE, .first = first, .count = 2, .is_complete = true});
    if (p->reader.failed) return;
    g->values[first] = module;
    g->values[first + 1] = key;
    add_entry(p, (uint32_t)g->roots[g->parcel->value_count].index, node_value(place), value);
}

static void parse_fixup_record(parser *p) {
    graph_value container = parse_value(p, 1), key = parse_value(p, 1), value = parse_value(p, 1);
    if (p->reader.failed) return;
    graph *g = p->graph;
    bool is_number = key.kind == VALUE_INTEGER && key.integer >= 1;
    if (container.kind == VALUE_NIL) {
        if (!is_number || key.integer > g->parcel->value_count) return parser_fail(p);
        g->roots[key.integer - 1] = value;
    } else if (is_node_of(g, container, NODE_TABLE) || is_node_of(g, container, NODE_ENVIRONMENT)) {
        // As a key, a function of a script may have made nil or NaN; then there is no entry.
        if (is_key(key)) add_entry(p, (uint32_t)container.index, key, value);
    } else if (container.kind == VALUE_NAMED) {
        add_change(p, container, key, value);
    } else if (is_node_of(g, container, NODE_FUNCTION)) {
        const graph_node *function = &g->nodes[container.index];
        if (!is_number || key.integer > function->count) return parser_fail(p);
        graph_value cell = g->values[function->first + (size_t)key.integer - 1];
        if (cell.kind != VALUE_NODE) return parser_fail(p);
        g->values[g->nodes[cell.index].first] = value;
    } else {
        parser_fail(p);
    }
}

static void parse_records(parser *p) {
    while (!p->reader.failed) switch (message_byte(&p->reader)) {
        case CLUA_TAG_TABLE_KEPT: parse_table(p, 0); break;
        case CLUA_TAG_REBUILT: parse_rebuilt_record(p); break;
        case CLUA_TAG_FIXUP: parse_fixup_record(p); break;
        case CLUA_TAG_BODY: parse_body_record(p); break;
        case CLUA_TAG_CLASS_BODY: parse_class_record(p); break;
        case CLUA_TAG_GLOBAL: parse_global_record(p); break;
        case CLUA_TAG_END: return;
        default: parser_fail(p);
        }
}

// MARK: parcels

// These globals are in records, too.
static void skip_switches(parser *p) {
    for (uint64_t count = message_varint(&p->reader); count > 0 && !p->reader.failed; count--) {
        parse_text(p);
        bool is_string = p->reader.next < p->reader.end && *p->reader.next == CLUA_TAG_STRING;
        if (is_string) message_byte(&p->reader);
        if (is_string)
            parse_text(p);  // not one that the parcel refers to again
        else
            parse_value(p, 0);
    }
}

static void parse_classes(parser *p) {
    size_t count = clua_parcel_string_count(p->graph->parcel);
    if (count == 0) return parser_fail(p);
    const clua_shared_string *string = clua_parcel_string(p->graph->parcel, count - 1);
    const uint8_t *bytes = (const uint8_t *)string->bytes;
    message_reader rest = p->reader;
    p->reader = (message_reader){bytes, bytes + string->count - clua_identities_size(bytes, string->count), rest.failed};
    while (!p->reader.failed && p->reader.next != p->reader.end) parse_value(p, 0);
    bool failed = p->reader.failed;
    p->reader = rest;
    if (failed) parser_fail(p);
}

clua_key_status graph_make(const clua_parcel *parcel, graph *g) {
    *g = (graph){.parcel = parcel};
    if (parcel->value_count == 0) return CLUA_KEY_MADE;
    const uint8_t *bytes = clua_parcel_bytes(parcel);
    parser p = {.graph = g, .reader = {bytes, bytes + parcel->byte_count, false}};
    pointer_map_init(&p.references);
    pointer_map_init(&p.frozen);
    g->roots = calloc((size_t)parcel->value_count + 1, sizeof *g->roots);
    g->root_count = parcel->value_count;
    p.no_memory = g->roots == NULL;
    if (p.no_memory) parser_fail(&p);
    uint8_t flags = message_byte(&p.reader);
    if (flags & CLUA_HAS_IDENTITIES) p.reader.end -= clua_identities_size(p.reader.next, (size_t)(p.reader.end - p.reader.next));
    if (flags & CLUA_HAS_SWITCHES) skip_switches(&p);
    if (flags & CLUA_HAS_CLASSES) parse_classes(&p);
    for (uint32_t i = 0; i < parcel->value_count && !p.reader.failed; i++) g->roots[i] = parse_value(&p, 0);
    parse_records(&p);
    if (p.reader.next != p.reader.end) p.reader.failed = true;
    for (size_t i = 0; i < g->node_count && !p.reader.failed; i++) p.reader.failed = !g->nodes[i].is_complete;
    pointer_map_free(&p.references);
    pointer_map_free(&p.frozen);
    free(p.pending);
    free(p.objects);
    free(p.strings);
    free(p.environments);
    if (!p.reader.failed) return CLUA_KEY_MADE;
    graph_free(g);
    return p.no_memory ? CLUA_KEY_NO_MEMORY : p.is_unstable ? CLUA_KEY_UNSTABLE : CLUA_KEY_MALFORMED;
}

void graph_free(graph *graph) {
    free(graph->roots);
    free(graph->nodes);
    free(graph->values);
    free(graph->texts);
    free(graph->added);
    *graph = (struct graph){0};
}
