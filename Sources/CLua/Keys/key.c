#define _GNU_SOURCE
#include "key.h"

#include <stdlib.h>
#include <string.h>

#include "Keys/walk.h"

// Increase the number with each change of the digested bytes, so that no key of another version is equal by chance.
enum { KEY_VERSION = 2 };

static void add_roots(walker *w, clua_parcel_role role) {
    for (uint32_t i = 0; i < w->graph->root_count && !w->failed; i++) {
        graph_value root = w->graph->roots[i];
        char *path;
        if (i == w->graph->parcel->value_count)
            path = walk_text(w, "changed modules");
        else if (role == CLUA_BODY)
            path = i == 0 ? walk_text(w, "main") : walk_text(w, "argument %u", i);
        else
            path = role == CLUA_STORED ? walk_text(w, "value") : walk_text(w, role == CLUA_RESULTS ? "result %u" : "argument %u", i + 1);
        if (path == NULL) return;
        bool is_main = role == CLUA_BODY && i == 0;
        bool is_function = is_node_of(w->graph, root, NODE_FUNCTION) && w->places[root.index].part == 0;
        size_t number = walk_add_part(w, is_main || is_function ? walk_text(w, "function '%s'", path) : strdup(path), path, root);
        if (is_function && !w->failed) w->places[root.index] = (place){(uint32_t)number + 1, w->parts[number].node_count++};
    }
}

static void free_parts(walker *w) {
    for (size_t i = 0; i < w->part_count; i++) {
        free(w->parts[i].label);
        free(w->parts[i].path);
    }
    free(w->parts);
}

// The code of a part that is a function; NULL for other parts.
static const code_key *code_of(const walker *w, size_t number) {
    graph_value value = w->parts[number].value;
    if (!is_node_of(w->graph, value, NODE_FUNCTION) || w->places[value.index].part != number + 1) return NULL;
    return code_key_of(clua_parcel_code(w->graph->parcel, w->graph->nodes[value.index].number));
}

static bool copy_lines(const code_key *code, clua_component *component) {
    if (code == NULL || code->line_count == 0) return true;
    component->lines = malloc(code->line_count * sizeof *component->lines);
    if (component->lines == NULL) return false;
    memcpy(component->lines, code->lines, code->line_count * sizeof *component->lines);
    component->line_count = code->line_count;
    return true;
}

// Moves the parts, the objects and the modules to the key.
static bool fill(walker *w, clua_key *key) {
    key->components = calloc(w->part_count + 1, sizeof *key->components);
    if (key->components == NULL) return false;
    for (; key->component_count < w->part_count; key->component_count++) {
        part *part = &w->parts[key->component_count];
        clua_component *component = &key->components[key->component_count];
        *component = (clua_component){.label = part->label, .digest = part->digest};
        part->label = NULL;
        if (!copy_lines(code_of(w, key->component_count), component)) {
            key->component_count++;
            return false;
        }
    }
    key->met = w->met;
    key->met_count = w->met_count;
    key->modules = w->modules;
    key->module_count = w->module_count;
    w->met = NULL;
    w->modules = NULL;
    w->met_count = w->module_count = 0;
    return true;
}

static bool make(walker *w, clua_parcel_role role, clua_key *key) {
    w->places = calloc(w->graph->node_count + 1, sizeof *w->places);
    w->digester.state = XXH3_createState();
    if (w->places == NULL || w->digester.state == NULL) return false;
    add_roots(w, role);
    walk_parts(w);
    return !w->failed && fill(w, key);
}

clua_key_status clua_key_make(const clua_parcel *parcel, clua_parcel_role role, const uint64_t *contents, clua_key *key) {
    *key = (clua_key){0};
    graph graph;
    clua_key_status status = graph_make(parcel, &graph);
    if (status != CLUA_KEY_MADE) return status;
    walker w = {.graph = &graph, .contents = contents, .version = KEY_VERSION};
    pointer_map_init(&w.labels);
    pointer_map_init(&w.module_names);
    if (!make(&w, role, key)) {
        clua_key_free(key);
        status = CLUA_KEY_NO_MEMORY;
    }
    for (size_t i = 0; i < w.met_count; i++) free(w.met[i].path);
    for (size_t i = 0; i < w.module_count; i++) free(w.modules[i]);
    pointer_map_free(&w.labels);
    pointer_map_free(&w.module_names);
    free_parts(&w);
    free(w.places);
    free(w.frames);
    free(w.items);
    free(w.met);
    free(w.modules);
    free(w.colours);
    XXH3_freeState(w.digester.state);
    graph_free(&graph);
    return status;
}

void clua_key_free(clua_key *key) {
    for (size_t i = 0; i < key->component_count; i++) {
        free(key->components[i].label);
        free(key->components[i].lines);
    }
    for (size_t i = 0; i < key->met_count; i++) free(key->met[i].path);
    for (size_t i = 0; i < key->module_count; i++) free(key->modules[i]);
    free(key->components);
    free(key->met);
    free(key->modules);
    *key = (clua_key){0};
}
