#define _GNU_SOURCE
#include "Keys/walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "Keys/order.h"

// The byte that begins each item of the digested bytes. So two different values never have the same bytes.
enum token {
    TOKEN_VALUE,  // + value_kind
    TOKEN_TABLE = VALUE_NODE + 1,
    TOKEN_FUNCTION,
    TOKEN_CELL,
    TOKEN_ENVIRONMENT,
    TOKEN_REFERENCE,
    TOKEN_CLASS,
    TOKEN_REBUILT,
    TOKEN_AGAIN,
    TOKEN_PART,
    TOKEN_FROZEN
};

// A function in a table becomes a part of its own. Functions in tables that are nested deeper, and functions that follow so many parts, belong to
// the part around them.
enum { MOST_NAMED_DEPTH = 2, MOST_PARTS_IN_TABLES = 256, MOST_NAME = 200 };

static void visit(walker *w, graph_value value);

// MARK: names

enum { MOST_DIGITS = 10 };

// Writes a number in decimal, so that it ends at `end`. Returns where it starts.
static const char *write_digits(char *end, uint32_t number) {
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

// Writes a text and a zero to `text`, or nothing if `text` is NULL. Returns the length. The format may have `%s` and `%u`.
static size_t write_text(char *text, const char *format, va_list arguments) {
    size_t count = 0;
    while (*format != '\0') {
        char digits[MOST_DIGITS];
        const char *piece = format;
        size_t length = 0;
        if (*format == '%') {
            switch (format[1]) {
            case 's':
                piece = va_arg(arguments, const char *);
                length = strlen(piece);
                break;
            case 'u':
                piece = write_digits(digits + sizeof digits, va_arg(arguments, unsigned));
                length = (size_t)(digits + sizeof digits - piece);
                break;
            }
            format += 2;
        } else {
            length = (size_t)(strchrnul(format, '%') - format);
            format += length;
        }
        if (text != NULL) memcpy(text + count, piece, length);
        count += length;
    }
    if (text != NULL) text[count] = '\0';
    return count;
}

char *walk_text(walker *w, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    char *text = malloc(write_text(NULL, format, arguments) + 1);
    if (text != NULL) write_text(text, format, again);
    va_end(again);
    va_end(arguments);
    if (text == NULL) w->failed = true;
    return text;
}

// A name of a script as labels show it: at most its first MOST_NAME bytes, without control characters.
static char *name_of(walker *w, graph_text text) {
    size_t count = text.count < MOST_NAME ? text.count : MOST_NAME;
    char *name = malloc(count + 1);
    if (name == NULL) {
        w->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) name[i] = (unsigned char)text.bytes[i] < ' ' ? ' ' : text.bytes[i];
    name[count] = '\0';
    return name;
}

static const char *shown(const char *text) { return text != NULL ? text : ""; }

// The step from a frame to the item that is being visited.
static char *step_of(const walker *w, const frame *f) {
    size_t index = f->next - 1;
    char *step = NULL;
    const graph_value *items = f->is_own ? w->items + f->first : w->graph->values + f->first;
    if (!f->is_table) return strdup("");
    if (f->has_metatable && f->next == f->count) return strdup(" (its metatable)");
    if (index < f->sequence) return asprintf(&step, "[%zu]", index + 1) < 0 ? NULL : step;
    if ((index - f->sequence) % 2 == 0) return strdup(" (a key)");
    graph_value key = items[index - 1];
    int count = -1;
    if (key.kind == VALUE_STRING) {
        graph_text text = w->graph->texts[key.index];
        count = asprintf(&step, ".%.*s", (int)(text.count < MOST_NAME ? text.count : MOST_NAME), text.bytes);
    } else if (key.kind == VALUE_INTEGER) {
        count = asprintf(&step, "[%lld]", (long long)key.integer);
    } else {
        return strdup("[…]");
    }
    return count < 0 ? NULL : step;
}

// Deep paths are shown without their middle.
char *walk_path(const walker *w, const char *start) {
    char *path = strdup(start);
    for (size_t i = 0; i < w->frame_count && path != NULL; i++) {
        bool is_middle = w->frame_count > 8 && i >= 4 && i < w->frame_count - 4;
        if (is_middle && i > 4) continue;
        char *step = is_middle ? strdup("…") : step_of(w, &w->frames[i]), *longer = NULL;
        if (step == NULL || asprintf(&longer, "%s%s", path, step) < 0) longer = NULL;
        free(step);
        free(path);
        path = longer;
    }
    return path;
}

static bool room(walker *w, void *items, size_t used, size_t *capacity, size_t size) {
    if (!w->failed && graph_reserve(items, used, capacity, 1, size)) return true;
    w->failed = true;
    return false;
}

// MARK: parts

// Counts the uses of a text. Returns how often it was used before. The map's keys are digests instead of addresses.
static uint32_t uses_of(walker *w, pointer_map *map, uint64_t digest) {
    bool found;
    pointer_entry *entry = pointer_map_get(map, (const void *)(uintptr_t)digest, &found);
    if (entry == NULL) {
        w->failed = true;
        return 0;
    }
    return entry->number++;
}

size_t walk_add_part(walker *w, char *label, char *path, graph_value value) {
    if (label != NULL) {
        uint32_t uses = uses_of(w, &w->labels, XXH3_64bits(label, strlen(label)));
        if (uses > 0) {
            char *numbered = walk_text(w, "%s (%u)", label, uses + 1);
            free(label);
            label = numbered;
        }
    }
    if (label == NULL || path == NULL || !room(w, (void **)&w->parts, w->part_count, &w->part_capacity, sizeof *w->parts)) {
        w->failed = true;
        free(label);
        free(path);
        return 0;
    }
    w->parts[w->part_count] = (part){.label = label, .path = path, .identity = XXH3_64bits(label, strlen(label)), .value = value};
    return w->part_count++;
}

static bool is_new(const walker *w, graph_value value) { return value.kind == VALUE_NODE && w->places[value.index].part == 0; }

static void set_place(walker *w, size_t node, size_t part) {
    if (w->failed) return;
    w->places[node] = (place){(uint32_t)part + 1, w->parts[part].node_count++};
}

static void refer_to_part(walker *w, size_t number) {
    if (w->failed) return;
    digest_token(&w->digester, TOKEN_PART);
    digest_number(&w->digester, w->parts[number].identity);
}

// Makes a function that was not met yet a part of its own. Consumes `path`.
static void add_function(walker *w, char *path, graph_value function) {
    size_t number = walk_add_part(w, walk_text(w, "function '%s'", shown(path)), path, function);
    set_place(w, function.index, number);
    refer_to_part(w, number);
}

static void note_module(walker *w, graph_text name) {
    if (uses_of(w, &w->module_names, XXH3_64bits(name.bytes, name.count)) > 0) return;
    if (!room(w, (void **)&w->modules, w->module_count, &w->module_capacity, sizeof *w->modules)) return;
    char *copy = strndup(name.bytes, name.count);
    if (copy == NULL)
        w->failed = true;
    else
        w->modules[w->module_count++] = copy;
}

// MARK: frames

// `first` is an index in the graph's values, or in the walker's items if `is_own`.
static void push_frame(walker *w, frame frame) {
    if (room(w, (void **)&w->frames, w->frame_count, &w->frame_capacity, sizeof *w->frames)) w->frames[w->frame_count++] = frame;
}

static void add_item(walker *w, graph_value value) {
    if (room(w, (void **)&w->items, w->item_count, &w->item_capacity, sizeof *w->items)) w->items[w->item_count++] = value;
}

// `places` is the number of places in the array part if values are missing there, and otherwise 0: `#` returns it.
static void begin_table(walker *w, const graph_node *node, uint64_t sequence, uint64_t pairs, uint32_t places) {
    digest_number(&w->digester, sequence);
    digest_number(&w->digester, pairs);
    digest_token(&w->digester, node->metatable.kind != VALUE_NIL);
    digest_number(&w->digester, places);
}

// Visits a table with a metatable, or with keys other than 1, 2, 3 …. Copies the entries in the order of their keys.
static void visit_entries(walker *w, const graph_node *node, size_t count) {
    if (w->colours == NULL && order_needs_colours(w->graph, node)) w->colours = order_colours(w->graph, w->contents);
    ordered_entry *entries = malloc((node->count + count) * sizeof *entries);
    if (entries == NULL || (w->colours == NULL && order_needs_colours(w->graph, node))) {
        w->failed = true;
        free(entries);
        return;
    }
    count = order_entries(w->graph, node, w->colours, entries);
    size_t from = 0, sequence = 0, first = w->item_count;
    while (from < count && (entries[from].key.kind < VALUE_INTEGER || (entries[from].key.kind == VALUE_INTEGER && entries[from].key.integer < 1)))
        from++;
    while (from + sequence < count && entries[from + sequence].key.kind == VALUE_INTEGER
           && entries[from + sequence].key.integer == (int64_t)sequence + 1)
        add_item(w, entries[from + sequence++].value);
    for (size_t i = 0; i < count; i++) {
        if (i >= from && i < from + sequence) continue;
        add_item(w, entries[i].key);
        add_item(w, entries[i].value);
    }
    free(entries);
    begin_table(w, node, sequence, count - sequence, node->count > sequence ? node->count : 0);
    if (node->metatable.kind != VALUE_NIL) add_item(w, node->metatable);
    push_frame(w, (frame){.first = first, .count = w->item_count - first, .sequence = (uint32_t)sequence, .is_own = true, .is_table = true,
                          .has_metatable = node->metatable.kind != VALUE_NIL});
}

static void visit_table(walker *w, const graph_node *node) {
    size_t count = order_entry_count(w->graph, node);
    digest_token(&w->digester, node->is_frozen ? TOKEN_FROZEN : TOKEN_TABLE);
    if (count > 0 || node->metatable.kind != VALUE_NIL) return visit_entries(w, node, count);
    begin_table(w, node, node->count, 0, 0);
    push_frame(w, (frame){.first = node->first, .count = node->count, .sequence = node->count, .is_table = true});
}

// MARK: functions

static const code_key *begin_function(walker *w, const graph_node *node) {
    const code_key *code = code_key_of(clua_parcel_code(w->graph->parcel, node->number));
    if (code == NULL) {
        w->failed = true;
        return NULL;
    }
    digest_token(&w->digester, TOKEN_FUNCTION);
    digest_bytes(&w->digester, &code->digest, sizeof code->digest);
    digest_number(&w->digester, node->count);
    for (size_t i = 0; i < code->required_count; i++) note_module(w, code->required[i]);
    return code;
}

// Global variables are parts. Functions may share an environment, which counts once.
static void visit_environment(walker *w, const graph_node *node) {
    size_t count = order_entry_count(w->graph, node);
    digest_token(&w->digester, TOKEN_ENVIRONMENT);
    digest_number(&w->digester, count);
    ordered_entry *entries = malloc((count + 1) * sizeof *entries);
    if (entries == NULL) {
        w->failed = true;
        return;
    }
    count = order_entries(w->graph, node, NULL, entries);
    for (size_t i = 0; i < count && !w->failed; i++) {
        digest_text(&w->digester, entries[i].text.bytes, entries[i].text.count);
        char *name = name_of(w, entries[i].text);
        if (is_new(w, entries[i].value) && is_node_of(w->graph, entries[i].value, NODE_FUNCTION))
            add_function(w, name, entries[i].value);
        else
            refer_to_part(w, walk_add_part(w, walk_text(w, "global '%s'", shown(name)), name, entries[i].value));
    }
    free(entries);
}

// Visits an upvalue of `function`, which is a part of its own. A function or an environment in the upvalue follows at once. Another value becomes
// another part.
static void visit_named_cell(walker *w, const part *function, graph_value cell, const code_key *code, uint32_t number) {
    if (!is_new(w, cell)) return visit(w, cell);
    graph_value value = w->graph->values[w->graph->nodes[cell.index].first];
    char *name = number < code->upvalue_name_count && code->upvalue_names[number].count > 0 ? name_of(w, code->upvalue_names[number])
                                                                                          : walk_text(w, "%u", number + 1);
    bool is_function = is_new(w, value) && is_node_of(w->graph, value, NODE_FUNCTION);
    if (is_function || is_node_of(w->graph, value, NODE_ENVIRONMENT)) {
        set_place(w, cell.index, w->current);
        digest_token(&w->digester, TOKEN_CELL);
        if (is_function) return add_function(w, name, value);
        free(name);
        return visit(w, value);
    }
    size_t made = walk_add_part(w, walk_text(w, "upvalue '%s' of %s", shown(name), function->label), name, cell);
    set_place(w, cell.index, made);
    refer_to_part(w, made);
}

static void visit_function_part(walker *w, const graph_node *node) {
    const code_key *code = begin_function(w, node);
    for (uint32_t i = 0; i < node->count && !w->failed; i++) {
        part function = w->parts[w->current];  // a copy, because `parts` moves when it grows
        visit_named_cell(w, &function, w->graph->values[node->first + i], code, i);
    }
}

// Whether the keys that lead to a function here become its name.
static bool has_name(const walker *w) {
    // The first frame may be that of the part itself, such as an upvalue.
    size_t first = w->frame_count > 0 && !w->frames[0].is_table;
    if (w->frame_count - first > MOST_NAMED_DEPTH || w->part_count >= MOST_PARTS_IN_TABLES) return false;
    for (size_t i = first; i < w->frame_count; i++) {
        const frame *f = &w->frames[i];
        bool is_value = f->is_table && (f->next - 1 < f->sequence || (f->next - 1 - f->sequence) % 2 == 1);
        if (!is_value || (f->has_metatable && f->next == f->count)) return false;
    }
    return true;
}

static void visit_function(walker *w, graph_value value) {
    const graph_node *node = &w->graph->nodes[value.index];
    if (has_name(w)) return add_function(w, walk_path(w, w->parts[w->current].path), value);
    set_place(w, value.index, w->current);
    begin_function(w, node);
    push_frame(w, (frame){.first = node->first, .count = node->count});
}

// MARK: other nodes

static void visit_reference(walker *w, const graph_node *node) {
    digest_token(&w->digester, TOKEN_REFERENCE);
    digest_number(&w->digester, (uint64_t)clua_parcel_reference(w->graph->parcel, node->number)->kind);
    digest_number(&w->digester, w->met_count);
    char *path = walk_path(w, w->parts[w->current].label);
    if (path != NULL && room(w, (void **)&w->met, w->met_count, &w->met_capacity, sizeof *w->met)) {
        w->met[w->met_count++] = (clua_met){node->number, path};
    } else {
        w->failed = true;
        free(path);
    }
    push_frame(w, (frame){.first = node->first, .count = 1});
}

static void visit_class(walker *w, graph_value value) {
    const graph_node *node = &w->graph->nodes[value.index];
    char *name = name_of(w, w->graph->texts[node->number]);
    size_t number = walk_add_part(w, walk_text(w, "class '%s'", shown(name)), name, value);
    set_place(w, value.index, number);
    refer_to_part(w, number);
}

static void visit_new_node(walker *w, graph_value value) {
    const graph_node *node = &w->graph->nodes[value.index];
    if (node->kind == NODE_FUNCTION) return visit_function(w, value);
    if (node->kind == NODE_CLASS) return visit_class(w, value);
    set_place(w, value.index, w->current);
    switch (node->kind) {
    case NODE_TABLE: visit_table(w, node); break;
    case NODE_ENVIRONMENT: visit_environment(w, node); break;
    case NODE_REFERENCE: visit_reference(w, node); break;
    default:
        digest_token(&w->digester, node->kind == NODE_CELL ? TOKEN_CELL : TOKEN_REBUILT);
        digest_number(&w->digester, node->number);
        push_frame(w, (frame){.first = node->first, .count = 1});
    }
}

// MARK: values

static void visit(walker *w, graph_value value) {
    digester *d = &w->digester;
    if (value.kind == VALUE_NODE) {
        place place = w->places[value.index];
        if (place.part == 0) return visit_new_node(w, value);
        digest_token(d, TOKEN_AGAIN);
        digest_number(d, w->parts[place.part - 1].identity);
        digest_number(d, place.number);
        return;
    }
    digest_token(d, (uint8_t)(TOKEN_VALUE + value.kind));
    switch (value.kind) {
    case VALUE_INTEGER:
    case VALUE_FLOAT: digest_number(d, value.bits); break;
    case VALUE_NAMED:
        digest_token(d, value.field != 0);
        if (value.field != 0) digest_text(d, w->graph->texts[value.field - 1].bytes, w->graph->texts[value.field - 1].count);
        note_module(w, w->graph->texts[value.index]);
        digest_text(d, w->graph->texts[value.index].bytes, w->graph->texts[value.index].count);
        break;
    case VALUE_STRING: digest_text(d, w->graph->texts[value.index].bytes, w->graph->texts[value.index].count); break;
    default: break;
    }
}

// Visits the first value of a part.
static void begin_part(walker *w, graph_value value) {
    // If the node belongs to this part, its place was set when the part was added.
    bool is_own = value.kind == VALUE_NODE && w->places[value.index].part == w->current + 1;
    if (!is_own) return visit(w, value);
    const graph_node *node = &w->graph->nodes[value.index];
    if (node->kind == NODE_FUNCTION) return visit_function_part(w, node);
    digest_token(&w->digester, node->kind == NODE_CLASS ? TOKEN_CLASS : TOKEN_CELL);
    if (node->kind == NODE_CLASS) digest_text(&w->digester, w->graph->texts[node->number].bytes, w->graph->texts[node->number].count);
    push_frame(w, (frame){.first = node->first, .count = node->kind == NODE_CLASS ? 2 : 1});
}

static void visit_frames(walker *w) {
    while (w->frame_count > 0 && !w->failed) {
        frame *f = &w->frames[w->frame_count - 1];
        if (f->next < f->count) {
            size_t index = f->first + f->next++;
            visit(w, f->is_own ? w->items[index] : w->graph->values[index]);
            continue;
        }
        if (f->is_own) w->item_count = f->first;
        w->frame_count--;
    }
}

void walk_parts(walker *w) {
    for (w->current = 0; w->current < w->part_count && !w->failed; w->current++) {
        digest_begin(&w->digester);
        digest_number(&w->digester, w->version);
        begin_part(w, w->parts[w->current].value);
        visit_frames(w);
        if (!w->failed) w->parts[w->current].digest = digest_end(&w->digester);
    }
}
