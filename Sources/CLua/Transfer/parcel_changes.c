#include "Transfer/parcel_changes.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <string.h>

#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Libraries/environment_raising.h"
#include "Libraries/module_changes_raising.h"
#include "Libraries/module_loads_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/parcel_analysis.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_rebuild.h"

// A changed field. The Lua table at `anchors` has the container, the key and the value, starting at `anchor`. A change without a key only makes
// the receiver require the module.
typedef struct change {
    lua_Integer anchor;
    const path_step *path;
} change;

// The container whose changes are being collected, and the path to it.
typedef struct place {
    encoder *e;
    int container;
    const path_step *path;
} place;

// Whether the field was noted before. Notes it.
static bool was_noted(encoder *e, int container, int key) {
    lua_State *L = e->L;
    int top = lua_gettop(L);
    if (e->noted == 0) {
        lua_newtable(L);
        e->noted = encoder_anchor(e);
    }
    lua_rawgeti(L, e->anchors, e->noted);
    lua_pushvalue(L, container);
    if (lua_rawget(L, top + 1) == LUA_TNIL) {
        lua_newtable(L);
        lua_pushvalue(L, container);
        lua_pushvalue(L, -2);
        lua_rawset(L, top + 1);
        lua_replace(L, top + 2);
    }
    lua_pushvalue(L, key);
    bool was_noted = lua_rawget(L, top + 2) != LUA_TNIL;
    lua_pushvalue(L, key);
    lua_pushboolean(L, 1);
    lua_rawset(L, top + 2);
    lua_settop(L, top);
    return was_noted;
}

// Stack: a key, its present value.
static void note_change(lua_State *L, void *context) {
    const place *place = context;
    encoder *e = place->e;
    int value = lua_gettop(L), key = value - 1;
    if (was_noted(e, place->container, key)) return;
    const path_step *before = e->path;
    e->path = place->path;
    const path_step *path = encoder_field_step(e);
    e->path = before;
    lua_pushvalue(L, place->container);
    change change = {encoder_anchor(e), path};
    lua_pushvalue(L, key);
    encoder_anchor(e);
    lua_pushvalue(L, value);
    encoder_anchor(e);
    *(struct change *)encoder_append(e, &e->changes, sizeof change) = change;
}

// The start of the paths into the module with the name at `name`.
static const path_step *module_step(encoder *e, int name) {
    if (!e->is_tracking) return NULL;
    lua_pushvalue(e->L, name);
    encoder_anchor(e);
    const path_step *before = e->path;
    e->path = NULL;
    const path_step *step = encoder_step(e, PATH_MODULE, 0, lua_tostring(e->L, name), NULL);
    e->path = before;
    return step;
}

// Notes the changes of the table on top, and pops it.
static void compare(encoder *e, const path_step *path) {
    lua_State *L = e->L;
    int table = lua_gettop(L);
    place place = {e, table, path};
    if (lua_istable(L, table) && clua_push_snapshot(L, table)) clua_find_changes(L, table, table + 1, note_change, &place);
    lua_settop(L, table - 1);
}

// Notes the changes of the tables in the fields of the module at `module`.
static void compare_fields(encoder *e, int module, const path_step *path) {
    lua_State *L = e->L;
    int key = lua_gettop(L) + 1;
    lua_pushnil(L);
    while (lua_next(L, module)) {
        bool is_table = lua_istable(L, -1) && lua_type(L, key) == LUA_TSTRING && !lua_rawequal(L, -1, module);
        if (is_table && clua_is_compared(L, key + 1) && clua_push_snapshot(L, -1)) {
            lua_pop(L, 1);
            const path_step *before = e->path;
            e->path = path;
            const path_step *step = encoder_field_step(e);
            e->path = before;
            if (clua_module_name(L, -1)) {
                lua_pop(L, 2);
                compare(e, step);
            }
        }
        lua_settop(L, key);
    }
    lua_settop(L, key - 1);
}

static void compare_libraries(encoder *e) {
    static const char *const names[] = {LUA_STRLIBNAME, LUA_TABLIBNAME, LUA_MATHLIBNAME, NULL};
    if (e->has_libraries) return;
    e->has_libraries = true;
    lua_State *L = e->L;
    for (const char *const *name = names; *name != NULL; name++) {
        lua_pushstring(L, *name);
        clua_push_loaded(L, lua_gettop(L));
        compare(e, module_step(e, lua_gettop(L) - 1));
        lua_pop(L, 1);
    }
}

// MARK: globals

// Pushes the table of changed globals. Returns false and pushes nothing if it is empty.
static bool push_changed_globals(encoder *e) {
    lua_State *L = e->L;
    if (e->changed_globals == 0) {
        clua_push_changed_globals(L);
        e->changed_globals = encoder_anchor(e);
    }
    lua_rawgeti(L, e->anchors, e->changed_globals);
    lua_pushnil(L);
    if (lua_next(L, -2)) {
        lua_pop(L, 2);
        return true;
    }
    lua_pop(L, 1);
    return false;
}

// Adds the global with the name on top, and pops it.
static void note_global(encoder *e, const char *label) {
    lua_State *L = e->L;
    int name = lua_gettop(L);
    clua_push_current_globals(L);
    lua_pushvalue(L, name);
    encoder_note_global(e, encoder_environment(e, name + 1), label);
    lua_settop(L, name - 1);
}

static bool is_plain(int type) { return type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING; }

// Stack: the name and the value of a global.
static void note_switch(encoder *e) {
    lua_State *L = e->L;
    for (size_t i = 0; i < e->switches.count; i++) {
        lua_rawgeti(L, e->anchors, ((const lua_Integer *)e->switches.items)[i]);
        bool is_same = lua_rawequal(L, -1, -3);
        lua_pop(L, 1);
        if (is_same) return;
    }
    lua_pushvalue(L, -2);
    lua_Integer anchor = encoder_anchor(e);
    lua_pushvalue(L, -1);
    encoder_anchor(e);
    *(lua_Integer *)encoder_append(e, &e->switches, sizeof anchor) = anchor;
}

// Adds the changed globals that the module with the name at `name` reads.
static void note_globals_of_module(encoder *e, int name) {
    lua_State *L = e->L;
    int top = lua_gettop(L), changed = top + 1, chunk = top + 2;
    if (!push_changed_globals(e)) return;
    clua_push_chunk(L, name);
    if (lua_isfunction(L, chunk)) {
        const clua_code *code = clua_code_of(L, chunk);
        for (size_t i = 0; i < code->global_read_count; i++) {
            const clua_global_read *read = &code->global_reads[i];
            if (read->upvalue == 0) continue;
            lua_pushlstring(L, read->name, read->name_count);
            lua_pushvalue(L, -1);
            int type = lua_rawget(L, changed);
            if (is_plain(type)) note_switch(e);
            lua_pop(L, 1);
            if (type != LUA_TNIL) note_global(e, code->label);
            lua_settop(L, chunk);
        }
    }
    lua_settop(L, top);
}

// Adds the changed globals with plain values, such as switches. A module that the main state has not loaded may read them.
static void note_plain_globals(encoder *e) {
    lua_State *L = e->L;
    int top = lua_gettop(L), changed = top + 1, name = top + 2;
    if (!push_changed_globals(e)) return;
    lua_pushnil(L);
    while (lua_next(L, changed)) {
        int type = lua_type(L, -1);
        lua_settop(L, name);
        if (!is_plain(type)) continue;
        lua_pushvalue(L, name);
        note_global(e, "require");
    }
    lua_settop(L, top);
}

// Whether the module with the name at `name` is one that a fresh state has.
static bool is_library(lua_State *L, int name) {
    clua_push_requirements(L, name);
    bool is_library = lua_isboolean(L, -1);
    lua_pop(L, 1);
    return is_library;
}

// Inserts, before the changes from number `first` on, one that makes the receiver require the module on top, which has the name at `name`. Pops the
// module.
static void require_first(encoder *e, int name, size_t first) {
    lua_State *L = e->L;
    const path_step *step = module_step(e, name);
    change requirement = {encoder_anchor(e), step};
    for (int i = 0; i < 2; i++) {
        lua_pushnil(L);
        encoder_anchor(e);
    }
    encoder_append(e, &e->changes, sizeof requirement);
    change *items = e->changes.items;
    memmove(items + first + 1, items + first, (e->changes.count - 1 - first) * sizeof *items);
    items[first] = requirement;
}

// The changes from number `first` on are those of the module with the name at `name`. Before them, makes the receiver require the module that the
// script has required when that one was loaded: others that were loaded then may have set the fields that have changed.
static void require_outer_module(encoder *e, int name, size_t first) {
    lua_State *L = e->L;
    int top = lua_gettop(L), outer = top + 1, module = top + 2;
    if (e->changes.count == first || !clua_push_outer_module(L, name)) return;
    clua_push_loaded(L, outer);
    if (clua_module_name(L, module)) {
        lua_settop(L, module);
        require_first(e, outer, first);
    }
    lua_settop(L, top);
}

// Notes the changes of the module with the name on top, and pops the name. Appends the names of the modules that it has required to the array at
// `list`, which has `count` items. Returns the new number of items.
static lua_Integer compare_one(encoder *e, int list, lua_Integer count) {
    lua_State *L = e->L;
    int name = lua_gettop(L), module = name + 1;
    clua_push_loaded(L, name);
    // The fields of `package` are settings of all operations.
    bool is_package = strcmp(lua_tostring(L, name), LUA_LOADLIBNAME) == 0, is_known = true;
    bool is_named = !is_package && clua_module_name(L, module);
    // The module of the better name may have added fields.
    bool has_other_name = is_named && lua_isnil(L, -1) && !lua_rawequal(L, module + 1, name) && !is_library(L, name);
    lua_settop(L, has_other_name ? module + 1 : module);
    // Another name of a module has requirements of its own.
    if (is_named) encoder_meet(e, lua_topointer(L, name), &is_known);
    if (!is_known) {
        const path_step *step = module_step(e, name);
        size_t first = e->changes.count;
        if (has_other_name) {
            lua_pushvalue(L, module);
            require_first(e, module + 1, first++);
            lua_settop(L, module);
        }
        note_globals_of_module(e, name);
        lua_pushvalue(L, module);
        compare(e, step);
        if (lua_istable(L, module)) compare_fields(e, module, step);
        require_outer_module(e, name, first);
        clua_push_requirements(L, name);
        int requirements = module + 1;
        if (lua_istable(L, requirements)) {
            lua_pushnil(L);
            while (lua_next(L, requirements)) {
                lua_pop(L, 1);
                lua_pushvalue(L, -1);
                lua_rawseti(L, list, ++count);
            }
        }
    }
    lua_settop(L, name - 1);
    return count;
}

// Notes the changes of the module with the name on top, and of all modules that it has required, directly or not. Pops the name.
static void compare_module(encoder *e) {
    lua_State *L = e->L;
    clua_need_stack(L, 34);
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    int list = lua_gettop(L) - 1;
    lua_rawseti(L, list, 1);
    for (lua_Integer count = 1; count > 0;) {
        lua_rawgeti(L, list, count);
        lua_pushnil(L);
        lua_rawseti(L, list, count);
        count = compare_one(e, list, count - 1);
    }
    lua_settop(L, list - 1);
}

// Notes the changes of the module with the name on top, and of the libraries that its code may use. Pops the name.
static void compare_used(encoder *e) {
    bool is_known = is_library(e->L, lua_gettop(e->L));
    compare_module(e);
    if (!is_known) compare_libraries(e);
}

void changes_of_named(encoder *e, int name) {
    lua_State *L = e->L;
    // A function in C uses no tables of modules.
    if (!e->sends_changes || lua_iscfunction(L, name - 1)) return;
    if (!lua_isnil(L, name + 1) && is_library(L, name)) return;
    lua_pushvalue(L, name);
    compare_used(e);
}

void changes_of_global(encoder *e, const clua_global_read *read) {
    lua_State *L = e->L;
    int value = lua_gettop(L);
    if (!e->sends_changes) return;
    bool is_require = lua_isfunction(L, value) && read->name_count == 7 && memcmp(read->name, "require", 7) == 0;
    if (!is_require && !lua_istable(L, value)) return;
    clua_need_stack(L, 30);
    if (clua_state_of(L)->modules_changed) clua_modules_refresh(L);
    if (is_require) {
        lua_pushlstring(L, read->field != NULL ? read->field : "", read->field_count);
        lua_pushvalue(L, -1);
        clua_push_loaded(L, value + 1);
        bool is_loaded = !lua_isnil(L, -1);
        lua_pop(L, 1);
        if (is_loaded) {
            compare_used(e);
        } else {
            note_plain_globals(e);
            compare_libraries(e);
        }
    } else if (clua_push_snapshot(L, value)) {
        place place = {e, value, NULL};
        if (e->is_tracking) {
            lua_pushlstring(L, read->name, read->name_count);
            place.path = module_step(e, lua_gettop(L));
            lua_pop(L, 1);
        }
        if (read->field == NULL) {
            clua_find_changes(L, value, value + 1, note_change, &place);
        } else {
            lua_pushlstring(L, read->field, read->field_count);
            lua_pushvalue(L, -1);
            lua_rawget(L, value + 1);
            lua_pushvalue(L, -2);
            lua_rawget(L, value);
            bool is_same = lua_rawequal(L, -1, -2);
            lua_remove(L, -2);
            if (!is_same) note_change(L, &place);
        }
    }
    lua_settop(L, value);
}

void changes_of_methods(encoder *e, const clua_code *code) {
    lua_State *L = e->L;
    if (!e->sends_changes || code->global_read_count == 0 || code->global_reads[0].upvalue != 0) return;
    int top = lua_gettop(L);
    clua_need_stack(L, 30);
    if (clua_state_of(L)->modules_changed) clua_modules_refresh(L);
    for (size_t i = 0; i < code->global_read_count && code->global_reads[i].upvalue == 0; i++) {
        const clua_global_read *read = &code->global_reads[i];
        if (!clua_is_method_changed(L, read->name, read->name_count)) continue;
        clua_push_kept(L, CLUA_KEPT_STRING_LIBRARY);
        lua_pushliteral(L, LUA_STRLIBNAME);
        place place = {e, top + 1, module_step(e, top + 2)};
        lua_pushlstring(L, read->name, read->name_count);
        lua_pushvalue(L, -1);
        lua_rawget(L, top + 1);
        note_change(L, &place);
        lua_settop(L, top);
    }
}

static void write_plain(parcel_writer *writer, lua_State *L) {
    size_t count;
    const char *bytes;
    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN: writer_byte(writer, lua_toboolean(L, -1) ? CLUA_TAG_TRUE : CLUA_TAG_FALSE); break;
    case LUA_TNUMBER: write_number(writer, L, -1); break;
    default:
        bytes = lua_tolstring(L, -1, &count);
        write_text(writer, bytes, count);
    }
}

void changes_write_switches(encoder *e) {
    lua_State *L = e->L;
    if (e->switches.count == 0 || e->writer.failed) return;
    parcel_writer writer;
    writer_init(&writer);
    writer_byte(&writer, e->writer.bytes[0] | CLUA_HAS_SWITCHES);
    writer_varint(&writer, e->switches.count);
    for (size_t i = 0; i < e->switches.count; i++) {
        lua_Integer anchor = ((const lua_Integer *)e->switches.items)[i];
        size_t count;
        lua_rawgeti(L, e->anchors, anchor);
        const char *name = lua_tolstring(L, -1, &count);
        writer_string(&writer, name, count);
        lua_rawgeti(L, e->anchors, anchor + 1);
        write_plain(&writer, L);
        lua_pop(L, 2);
    }
    writer_bytes(&writer, e->writer.bytes + 1, e->writer.count - 1);
    // Only the bytes are exchanged, because a writer may point into itself.
    writer_truncate(&e->writer);
    writer_bytes(&e->writer, writer.bytes, writer.count);
    e->writer.failed |= writer.failed;
    writer_free(&writer);
}

bool changes_write_next(encoder *e) {
    lua_State *L = e->L;
    if (e->written_changes == e->changes.count) return false;
    change change = ((const struct change *)e->changes.items)[e->written_changes++];
    encoder_follow(e, change.path);
    for (int i = 0; i < 3; i++) lua_rawgeti(L, e->anchors, change.anchor + i);
    bool is_change = !lua_isnil(L, -2);
    if (e->analysis != NULL && is_change) analysis_begin(e, (path_step *)change.path);
    e->sends_changes = is_change;
    encode_field(e);
    e->sends_changes = true;
    lua_pop(L, 3);
    return true;
}
