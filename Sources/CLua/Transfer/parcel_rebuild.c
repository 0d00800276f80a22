#include "Transfer/parcel_rebuild.h"

#include <lua5.4/lauxlib.h>

#include "Libraries/environment_raising.h"
#include "Libraries/iterators_raising.h"
#include "Libraries/modules_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_analysis.h"
#include "object.h"

typedef enum rebuilt_state { FOUND, OPEN, MADE } rebuilt_state;

// An object to be rebuilt. The Lua table at `anchors` has it at `anchor`, followed by the table of the values that __transfer returned.
typedef struct rebuilt {
    rebuilt_state state;
    int count;             // number of values that __transfer returned
    uint32_t arguments;    // ordinal of the table with those values
    lua_Integer anchor;
    size_t waiting;        // list of the fixups that wait for the object, newest first: 1 + index, 0 for none
    const path_step *path;
} rebuilt;

// A location that waits for a rebuilt object. The Lua table at `anchors` has container, key and value, starting at `anchor`.
typedef struct fixup {
    lua_Integer anchor;
    size_t next;  // next fixup that waits for the same object: 1 + index, 0 for none
    const path_step *path;
} fixup;

// An object whose arguments have been written. Objects found among the arguments are made first.
typedef struct level {
    size_t rebuilt;
    size_t first, next;  // indices in `found`
} level;

static rebuilt *rebuilt_at(encoder *e, size_t index) { return &((rebuilt *)e->rebuilt.items)[index]; }
static fixup *fixup_at(encoder *e, size_t index) { return &((fixup *)e->fixups.items)[index]; }
static void note_found(encoder *e, size_t index) { *(size_t *)encoder_append(e, &e->found, sizeof(size_t)) = index; }

// MARK: finding

// Stack: __transfer, the object. Returns what __transfer returns.
static int call_transfer(lua_State *L) {
    lua_call(L, 1, LUA_MULTRET);
    int count = lua_gettop(L);
    if (count == 0 || lua_type(L, 1) != LUA_TFUNCTION)
        luaL_error(L, "__transfer must return a function that rebuilds the value, and its arguments; it returned %s",
                   count == 0 ? "nothing" : luaL_typename(L, 1));
    return count;
}

// Pushes __transfer of the object at `object`.
static void push_transfer(lua_State *L, int object) {
    if (lua_isfunction(L, object)) {
        lua_pushcfunction(L, clua_take_iterator_apart);
        return;
    }
    lua_getmetatable(L, object);
    lua_pushliteral(L, "__transfer");
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

// Calls __transfer of the object on top, and records the results. Returns false, in an analysis pass only, if that fails. Needs 8 slots.
static bool add_rebuilt(encoder *e) {
    lua_State *L = e->L;
    int object = lua_gettop(L);
    lua_pushcfunction(L, call_transfer);
    push_transfer(L, object);
    lua_pushvalue(L, object);
    if (e->analysis == NULL) {
        lua_call(L, 2, LUA_MULTRET);
    } else {
        int status = lua_pcall(L, 2, LUA_MULTRET, 0);
        if (status != LUA_OK) {
            if (status == LUA_ERRMEM) lua_error(L);
            luaL_tolstring(L, -1, NULL);
            analysis_note(e, object);
            lua_settop(L, object);
            return false;
        }
    }
    int count = lua_gettop(L) - object;
    luaL_checkstack(L, 4, "too many values from __transfer");
    lua_pushvalue(L, object);
    lua_Integer anchor = encoder_anchor(e);
    lua_createtable(L, count, 0);
    lua_insert(L, object + 1);
    for (int i = count; i >= 1; i--) lua_rawseti(L, object + 1, i);
    encoder_anchor(e);
    *(rebuilt *)encoder_append(e, &e->rebuilt, sizeof(rebuilt)) = (rebuilt){.count = count, .anchor = anchor, .path = e->path};
    return true;
}

static bool has_transfer(lua_State *L, int index) {
    int type = lua_type(L, index);
    if (type == LUA_TFUNCTION) return clua_is_new_iterator(L, index);
    if ((type != LUA_TTABLE && type != LUA_TUSERDATA) || !lua_getmetatable(L, index)) return false;
    lua_pushliteral(L, "__transfer");
    bool has = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 2);
    return has;
}

// Whether the object on top travels by reference or by name, whatever its metatable says.
static bool is_known_there(lua_State *L) {
    if (clua_to_handle(L, -1) != NULL || (lua_istable(L, -1) && clua_is_environment(L, -1))) return true;
    if (!clua_module_name(L, -1)) return false;
    lua_pop(L, 2);
    return true;
}

bool travels_by_value(lua_State *L, int index) {
    if (has_transfer(L, index)) return false;
    lua_pushvalue(L, index);
    bool is_known = is_known_there(L);
    lua_pop(L, 1);
    return !is_known;
}

// Whether the value at `index` has to be rebuilt and has not been made. If so, `*awaited` is its index in `rebuilt`.
static bool is_awaited(encoder *e, int index, size_t *awaited) {
    lua_State *L = e->L;
    if (!has_transfer(L, index)) return false;
    lua_pushvalue(L, index);
    bool found = true;
    pointer_entry *entry = is_known_there(L) ? NULL : encoder_meet(e, lua_topointer(L, -1), &found);
    if (!found) {
        entry->number = (uint32_t)e->rebuilt.count + 1;  // 0 means met as something else
        *awaited = e->rebuilt.count;
        if (!add_rebuilt(e)) {
            encoder_meet(e, lua_topointer(L, -1), &found)->number = 0;
            entry = NULL;
        }
    } else if (entry != NULL && entry->number != 0 && entry->number <= e->rebuilt.count) {
        *awaited = entry->number - 1;
    } else {
        entry = NULL;
    }
    lua_pop(L, 1);
    if (entry == NULL || rebuilt_at(e, *awaited)->state == MADE) return false;
    // Add the object again although it was found before, because the value that is being written may need it sooner.
    if (rebuilt_at(e, *awaited)->state == FOUND) note_found(e, *awaited);
    return true;
}

static void wait_for(encoder *e, size_t awaited, fixup fixup) {
    fixup.next = rebuilt_at(e, awaited)->waiting;
    *(struct fixup *)encoder_append(e, &e->fixups, sizeof fixup) = fixup;
    rebuilt_at(e, awaited)->waiting = e->fixups.count;
}

bool rebuild_later(encoder *e, int container) {
    lua_State *L = e->L;
    size_t awaited;
    if (!is_awaited(e, -2, &awaited) && !is_awaited(e, -1, &awaited)) return false;
    if (container == 0)
        lua_pushnil(L);
    else
        lua_pushvalue(L, container);
    fixup fixup = {.anchor = encoder_anchor(e), .path = e->path};
    lua_pushvalue(L, -2);
    encoder_anchor(e);
    lua_pushvalue(L, -1);
    encoder_anchor(e);
    wait_for(e, awaited, fixup);
    return true;
}

// MARK: writing

// Writes the table of the values that __transfer returned.
static void open_rebuilt(encoder *e, size_t index) {
    lua_State *L = e->L;
    rebuilt *object = rebuilt_at(e, index);
    object->state = OPEN;
    *(level *)encoder_append(e, &e->levels, sizeof(level)) = (level){index, e->found.count, e->found.count};
    encoder_follow(e, object->path);
    uint32_t counts[2] = {(uint32_t)object->count, 0};
    lua_rawgeti(L, e->anchors, object->anchor + 1);
    int arguments = lua_gettop(L);
    bool found;
    object->arguments = encode_begin(e, encoder_meet(e, lua_topointer(L, arguments), &found), CLUA_TAG_TABLE_KEPT);
    writer_bytes(&e->writer, counts, sizeof counts);
    for (uint32_t i = 1; i <= counts[0]; i++) {
        e->path = encoder_step(e, PATH_REBUILD, i, NULL, NULL);
        lua_pushinteger(L, i);
        lua_rawgeti(L, arguments, i);
        if (rebuild_later(e, arguments))
            writer_byte(&e->writer, CLUA_TAG_NIL);
        else
            encode_value(e, 1);
        lua_pop(L, 2);
        e->path = rebuilt_at(e, index)->path;
    }
    writer_byte(&e->writer, CLUA_NO_METATABLE);
    lua_pop(L, 1);
}

// Stack: a container, a key, a value.
static void write_field(encoder *e) {
    writer_byte(&e->writer, CLUA_TAG_FIXUP);
    for (int i = -3; i <= -1; i++) {
        lua_pushvalue(e->L, i);
        encode_value(e, 1);
        lua_pop(e->L, 1);
    }
}

void encode_field(encoder *e) {
    if (!rebuild_later(e, lua_gettop(e->L) - 2)) write_field(e);
}

// Writes the fixup record if key and value are available, or else waits for the missing one.
static void write_fixup(encoder *e, fixup fixup) {
    lua_State *L = e->L;
    encoder_follow(e, fixup.path);
    for (int i = 0; i < 3; i++) lua_rawgeti(L, e->anchors, fixup.anchor + i);
    size_t awaited;
    if (is_awaited(e, -2, &awaited) || is_awaited(e, -1, &awaited))
        wait_for(e, awaited, fixup);
    else
        write_field(e);
    lua_pop(L, 3);
}

static void make_rebuilt(encoder *e, size_t index) {
    lua_State *L = e->L;
    rebuilt *object = rebuilt_at(e, index);
    lua_rawgeti(L, e->anchors, object->anchor);
    bool found;
    encode_begin(e, encoder_meet(e, lua_topointer(L, -1), &found), CLUA_TAG_REBUILT);
    lua_pop(L, 1);
    writer_varint(&e->writer, object->arguments);
    writer_varint(&e->writer, (uint64_t)object->count);
    object->state = MADE;
    size_t waiting = object->waiting;
    while (waiting != 0) {
        fixup fixup = *fixup_at(e, waiting - 1);
        waiting = fixup.next;
        write_fixup(e, fixup);
    }
}

bool rebuild_next(encoder *e) {
    if (e->levels.count == 0) {
        if (e->found.count == 0) return false;
        *(level *)encoder_append(e, &e->levels, sizeof(level)) = (level){0};  // the level of the parcel's values
    }
    level *top = &((level *)e->levels.items)[e->levels.count - 1];
    while (top->next < e->found.count) {
        size_t index = ((size_t *)e->found.items)[top->next++];
        if (rebuilt_at(e, index)->state != FOUND) continue;
        open_rebuilt(e, index);
        return true;
    }
    if (e->levels.count == 1) return false;
    size_t index = top->rebuilt;
    e->found.count = top->first;
    e->levels.count--;
    make_rebuilt(e, index);
    return true;
}
