#include "Transfer/parcel_analysis.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/modules_raising.h"
#include "Objects/class_raising.h"
#include "Transfer/frozen.h"
#include "Transfer/parcel_raising.h"
#include "Transfer/parcel_rebuild.h"
#include "object.h"
#include "state.h"

static size_t *size_of(encoder *e, uint32_t record) {
    analysis *s = e->analysis;
    while (s->sizes.count <= record) *(size_t *)encoder_append(e, &s->sizes, sizeof(size_t)) = 0;
    return (size_t *)s->sizes.items + record;
}

// Attributes the bytes written since the last call to the current record.
static void count(encoder *e) {
    analysis *s = e->analysis;
    *size_of(e, s->current) += e->writer.count - s->counted;
    s->counted = e->writer.count;
}

void analysis_add(encoder *e, size_t size) { *size_of(e, e->analysis->current) += size; }

void analysis_follow(encoder *e) {
    count(e);
    e->analysis->current = e->path != NULL ? e->path->record : 0;
}

static const char *kind_of(lua_State *L, int value) {
    clua_handle *handle = clua_to_handle(L, value);
    const clua_host *host = clua_state_of(L)->host;
    for (size_t i = 0; handle != NULL && i < host->class_count; i++) {
        if (host->classes[i].kind != handle->kind) continue;
        const char *name = host->classes[i].name;
        return strcmp(name, "Operation") == 0 ? "operation" : strcmp(name, "OperationQueue") == 0 ? "queue" : "object";
    }
    if (clua_to_frozen(L, value) != NULL) return "frozen";
    if (lua_istable(L, value) && clua_is_environment(L, value)) return "globals";
    if (lua_istable(L, value) && clua_class_handle(L, value) != NULL) return "class";
    if (clua_module_name(L, value)) {
        lua_pop(L, 2);
        return "module";
    }
    return lua_isfunction(L, value) ? "function" : "value";
}

// Sets the field `from` of the record on top, if the value at `value` is of a module with a file, or is a function.
static void set_origin(lua_State *L, int value) {
    int record = lua_gettop(L);
    lua_Debug about;
    if (clua_module_name(L, value)) {
        lua_pop(L, 1);
        if (clua_push_module_file(L, record + 1)) lua_setfield(L, record, "from");
    } else if (lua_isfunction(L, value)) {
        lua_pushvalue(L, value);
        lua_getinfo(L, ">S", &about);
        lua_pushfstring(L, "%s:%d", about.short_src, about.linedefined);
        lua_setfield(L, record, "from");
    }
    lua_settop(L, record);
}

// Stack: the name. Replaces it by a new record with that name for the value at `value`.
static void push_record(encoder *e, int value, const path_step *last, const char *kind) {
    lua_State *L = e->L;
    lua_createtable(L, 0, 7);
    lua_insert(L, -2);
    lua_setfield(L, -2, "name");
    const path_step *root = last;
    while (root != NULL && root->parent != NULL) root = root->parent;
    if (root != NULL && root->label != NULL) {
        lua_pushstring(L, root->label);
        lua_setfield(L, -2, "of");
    }
    set_origin(L, value);
    lua_pushstring(L, kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, luaL_typename(L, value));
    lua_setfield(L, -2, "type");
    lua_pushvalue(L, -1);
    lua_rawseti(L, e->analysis->records, ++e->analysis->count);
}

void analysis_begin(encoder *e, path_step *step) {
    lua_State *L = e->L;
    clua_need_stack(L, 12);
    int value = lua_gettop(L);
    path_push_name(L, step);
    push_record(e, value, step, kind_of(L, value));
    lua_settop(L, value);
    count(e);
    e->analysis->current = step->record = e->analysis->count;
}

void analysis_note(encoder *e, int culprit) {
    lua_State *L = e->L;
    clua_need_stack(L, 12);
    culprit = lua_absindex(L, culprit);
    int message = lua_gettop(L);
    lua_rawgeti(L, e->analysis->records, e->path != NULL ? e->path->record : 0);
    bool is_first = lua_istable(L, -1) && lua_getfield(L, -1, "error") == LUA_TNIL;
    lua_settop(L, is_first ? message + 1 : message);
    if (!is_first) {
        if (e->path != NULL)
            path_push_name(L, e->path);
        else
            lua_pushliteral(L, "the value");
        push_record(e, culprit, e->path, "value");
    }
    lua_pushvalue(L, message);
    lua_setfield(L, -2, "error");
    lua_settop(L, message - 1);
}

void analysis_end(encoder *e) {
    lua_State *L = e->L;
    count(e);
    size_t total = *size_of(e, 0);
    for (uint32_t i = 1; i <= e->analysis->count; i++) {
        lua_rawgeti(L, e->analysis->records, i);
        lua_pushinteger(L, (lua_Integer)*size_of(e, i));
        lua_setfield(L, -2, "size");
        lua_pop(L, 1);
        total += *size_of(e, i);
    }
    lua_pushinteger(L, (lua_Integer)total);
    lua_setfield(L, e->analysis->records, "size");
}

int clua_push_captures(lua_State *L) {
    lua_createtable(L, 4, 0);
    clua_modules_changed(L);
    analysis analysis = {.records = 3};
    encoder e = {.count = 1, .role = CLUA_BODY, .is_tracking = true, .analysis = &analysis};
    pointer_map_init(&e.met);
    lua_pushcfunction(L, encode_all);
    lua_pushlightuserdata(L, &e);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    int status = lua_pcall(L, 3, 0, 0);
    encoder_free(&e);
    free(analysis.sizes.items);
    return status == LUA_OK ? 1 : lua_error(L);
}
