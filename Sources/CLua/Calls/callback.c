#include "callback.h"

#include <lua5.4/lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "Calls/callback_raising.h"
#include "Core/memory_raising.h"
#include "Core/registry_raising.h"
#include "Core/traceback_raising.h"
#include "Limits/stop_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "Objects/observer_raising.h"
#include "deferred.h"

// A C function pointer as light userdata. POSIX guarantees the conversion.
static void push_pointer(lua_State *L, clua_function function) { lua_pushlightuserdata(L, (void *)function); }

static clua_function to_pointer(lua_State *L, int index) { return (clua_function)lua_touserdata(L, index); }

void clua_reply_free(clua_reply *reply) {
    free(reply->bytes);
    for (size_t i = 0; i < reply->reference_count; i++) clua_object_release(reply->references[i].object);
    free(reply->references);
    free(reply->parcels);
    if (reply->parcel_owner != NULL) clua_object_release(reply->parcel_owner);
}

// Packs the function at `first` and its arguments, up to `last`, into one value, and pushes that.
static void pack_body(lua_State *L, int first, int last) {
    if (first == last) {
        lua_pushvalue(L, first);
        return;
    }
    lua_createtable(L, last - first + 1, 1);
    for (int i = first; i <= last; i++) {
        lua_pushvalue(L, i);
        lua_rawseti(L, -2, i - first + 1);
    }
    lua_pushinteger(L, last - first + 1);
    lua_setfield(L, -2, "n");
}

void clua_set_body(lua_State *L, int first, int last, int number) {
    int handle = lua_gettop(L);
    if (number == 0) {
        pack_body(L, first, last);
        lua_setiuservalue(L, handle, CLUA_USER_VALUE_BODY);
        return;
    }
    if (lua_getiuservalue(L, handle, CLUA_USER_VALUE_BODY) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_createtable(L, 2, 0);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, handle, CLUA_USER_VALUE_BODY);
    }
    pack_body(L, first, last);
    lua_rawseti(L, -2, number);
    lua_pop(L, 1);
}

static void push_progress(lua_State *L, const clua_reply *reply) {
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, reply->integer);
    lua_setfield(L, -2, "totalUnitCount");
    lua_pushinteger(L, reply->integer2);
    lua_setfield(L, -2, "completedUnitCount");
    lua_pushnumber(L, reply->number);
    lua_setfield(L, -2, "fractionCompleted");
}

static void push_parcel(lua_State *L, const clua_parcel *parcel) {
    if (clua_decode(L, parcel, CLUA_CURRENT_ENVIRONMENT) != LUA_OK) lua_error(L);
}

// Pushes the contents of the parcels: all values of the single parcel, or the first value of each of several.
static void push_all_results(lua_State *L, const clua_reply *reply) {
    if (reply->parcel != NULL) return push_parcel(L, reply->parcel);
    luaL_checkstack(L, (int)reply->parcel_count + LUA_MINSTACK, "too many results");
    for (size_t i = 0; i < reply->parcel_count; i++) {
        int top = lua_gettop(L);
        push_parcel(L, reply->parcels[i]);
        lua_settop(L, top + 1);
    }
}

// Stack: the reply, the handle. Pushes the first result, or the table of all results.
static void push_results(lua_State *L, const clua_reply *reply) {
    clua_handle *handle = lua_touserdata(L, 2);
    if (handle->has_results) {
        lua_getiuservalue(L, 2, CLUA_USER_VALUE_RESULTS);
    } else {
        push_all_results(L, reply);
        int count = lua_gettop(L) - 2;
        lua_createtable(L, count, 1);
        lua_insert(L, 3);
        for (int i = count; i >= 1; i--) lua_rawseti(L, 3, i);
        lua_pushinteger(L, count);
        lua_setfield(L, 3, "n");
        lua_pushvalue(L, 3);
        lua_setiuservalue(L, 2, CLUA_USER_VALUE_RESULTS);
        handle->has_results = true;
    }
    if (reply->integer == 1) lua_rawgeti(L, -1, 1);
}

// Pushes an answer that owns memory. Stack: the reply as light userdata, then the arguments that it needs. Runs in protected mode, so that
// the memory can be freed in every case.
static int push_owned(lua_State *L) {
    const clua_reply *reply = lua_touserdata(L, 1);
    switch (reply->kind) {
    case CLUA_REPLY_HANDLES:
        lua_createtable(L, (int)reply->reference_count, 0);
        for (size_t i = 0; i < reply->reference_count; i++) {
            clua_push_handle(L, reply->references[i].object, reply->references[i].kind);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case CLUA_REPLY_PARCEL:
        lua_settop(L, 0);
        push_all_results(L, reply);
        return lua_gettop(L);
    case CLUA_REPLY_RAISE:
        if (reply->parcel == NULL) {
            lua_pushlstring(L, reply->bytes, reply->byte_count);
        } else {
            push_parcel(L, reply->parcel);
            lua_settop(L, 2);
        }
        break;
    case CLUA_REPLY_RESULTS: push_results(L, reply); break;
    case CLUA_REPLY_CLASS: {
        lua_pushlstring(L, reply->bytes, reply->byte_count);
        const clua_reference *reference = &reply->references[0];
        clua_make_class(L, reference->object, reference->kind, lua_tostring(L, -1), 2);
        break;
    }
    default: lua_pushlstring(L, reply->bytes, reply->byte_count);
    }
    return 1;
}

// Pushes the answer's values, and returns their number.
static int answer_owned(lua_State *L, clua_reply *reply) {
    int base = lua_gettop(L);
    bool needs_first = reply->kind == CLUA_REPLY_RESULTS || reply->kind == CLUA_REPLY_CLASS;
    if (!lua_checkstack(L, 3)) {
        clua_reply_free(reply);
        luaL_error(L, "stack overflow");
    }
    lua_pushcfunction(L, push_owned);
    lua_pushlightuserdata(L, reply);
    if (needs_first) lua_pushvalue(L, 1);
    int status = lua_pcall(L, needs_first ? 2 : 1, LUA_MULTRET, 0);
    clua_reply_free(reply);
    if (status != LUA_OK) lua_error(L);
    return lua_gettop(L) - base;
}

int clua_push_completion(lua_State *L, int handle, bool is_kept) {
    int type = lua_getiuservalue(L, handle, CLUA_USER_VALUE_FUNCTIONS);
    if (type == LUA_TTABLE) {
        type = lua_rawgeti(L, -1, 1);
        if (!is_kept) {
            lua_pushnil(L);
            lua_rawseti(L, -3, 1);
        }
        lua_replace(L, -2);
    } else if (!is_kept) {
        lua_pushnil(L);
        lua_setiuservalue(L, handle, CLUA_USER_VALUE_FUNCTIONS);
    }
    return type;
}

void clua_set_completion(lua_State *L, int handle, int index) {
    bool has_table = lua_getiuservalue(L, handle, CLUA_USER_VALUE_FUNCTIONS) == LUA_TTABLE;
    if (index != 0)
        lua_pushvalue(L, index);
    else
        lua_pushnil(L);
    if (has_table)
        lua_rawseti(L, -2, 1);
    else
        lua_setiuservalue(L, handle, CLUA_USER_VALUE_FUNCTIONS);
    lua_pop(L, 1);
}

// Pushes the handle.
static void answer_handle(lua_State *L, const clua_reply *reply) {
    int last = lua_gettop(L);
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        clua_object_release(reply->reference.object);
        luaL_error(L, "stack overflow");
    }
    if (reply->is_new)
        clua_push_new_handle(L, reply->reference.object, reply->reference.kind);
    else
        clua_push_owned_handle(L, reply->reference.object, reply->reference.kind);
    if (reply->body_first != 0) clua_set_body(L, reply->body_first, last, reply->body_number);
    if (reply->completion_index != 0) clua_set_completion(L, last + 1, reply->completion_index);
}

int clua_answer_sent(lua_State *L, int index) {
    lua_pushnil(L);
    lua_setiuservalue(L, index, CLUA_USER_VALUE_BODY);
    lua_pushvalue(L, index);
    return 1;
}

int clua_answer(lua_State *L, clua_reply *reply) {
    switch (reply->kind) {
    case CLUA_REPLY_NOTHING: return 0;
    case CLUA_REPLY_NIL: lua_pushnil(L); return 1;
    case CLUA_REPLY_BOOLEAN: lua_pushboolean(L, reply->integer != 0); return 1;
    case CLUA_REPLY_INTEGER: lua_pushinteger(L, reply->integer); return 1;
    case CLUA_REPLY_NUMBER: lua_pushnumber(L, reply->number); return 1;
    case CLUA_REPLY_PROGRESS: push_progress(L, reply); return 1;
    case CLUA_REPLY_VALUES: return (int)reply->integer;
    case CLUA_REPLY_SENT: return clua_answer_sent(L, (int)reply->integer);
    case CLUA_REPLY_ARGUMENT: lua_pushvalue(L, (int)reply->integer); return 1;
    case CLUA_REPLY_NO_MEMORY: return clua_no_memory(L);
    case CLUA_REPLY_STOP:
        clua_stop_here(L, (clua_stop_reason)reply->integer);
        return clua_raise_stop(L);
    case CLUA_REPLY_HANDLE: answer_handle(L, reply); return 1;
    case CLUA_REPLY_OBSERVATION:
        answer_handle(L, reply);
        clua_add_observer(L, 1, (int)reply->integer);
        return 1;
    case CLUA_REPLY_CLASS_FIELD:
        luaL_checkstack(L, LUA_MINSTACK, NULL);
        clua_push_class_of(L, 1);
        lua_pushvalue(L, 2);
        clua_find_in_class(L, lua_gettop(L) - 1);
        return 1;
    case CLUA_REPLY_READ: return clua_read(L, reply->stream, 2);
    case CLUA_REPLY_LINES: clua_push_lines(L, reply->stream, 2); return 1;
    case CLUA_REPLY_COMPLETION: clua_push_completion(L, 1, true); return 1;
    case CLUA_REPLY_SET_COMPLETION: clua_set_completion(L, 1, reply->completion_index); return 0;
    case CLUA_REPLY_ADD_BODY: {
        int last = lua_gettop(L);
        luaL_checkstack(L, LUA_MINSTACK, NULL);
        lua_pushvalue(L, 1);
        clua_set_body(L, reply->body_first, last, reply->body_number);
        return 0;
    }
    case CLUA_REPLY_STRING:
    case CLUA_REPLY_PARCEL:
    case CLUA_REPLY_RESULTS:
    case CLUA_REPLY_CLASS:
    case CLUA_REPLY_HANDLES: return answer_owned(L, reply);
    case CLUA_REPLY_ARGUMENT_ERROR: {
        answer_owned(L, reply);
        return luaL_argerror(L, (int)reply->integer, lua_tostring(L, -1));
    }
    case CLUA_REPLY_RAISE: answer_owned(L, reply); return lua_error(L);
    case CLUA_REPLY_ERROR:
        answer_owned(L, reply);
        clua_push_where(L);
        lua_insert(L, -2);
        lua_concat(L, 2);
        return lua_error(L);
    }
    return luaL_error(L, "opscript bug: unknown kind of reply");
}

int clua_call_host(lua_State *L, clua_function function, int member) {
    clua_reply reply = {.kind = CLUA_REPLY_NOTHING};
    function(L, member, &reply);
    return clua_answer(L, &reply);
}

// The target of a call of a class's or module's function. It is a userdata, the function's upvalue.
typedef struct target {
    clua_function function;
    int member;
} target;

int clua_call_target(lua_State *L) {
    const target *target = lua_touserdata(L, lua_upvalueindex(1));
    return clua_call_host(L, target->function, target->member);
}

// The member number of the key at stack index 2 in the table at `members`, or 0.
static int find_member(lua_State *L, int members) {
    lua_pushvalue(L, 2);
    lua_rawget(L, members);
    int member = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return member;
}

// Replaces the host's method on top if a class may override it and the class of the object at index 1 does. The name is at stack index 2.
// `start` is not overridden here, because the host itself calls it.
static void override_method(lua_State *L) {
    clua_handle *handle = clua_to_handle(L, 1);
    if (handle == NULL || handle->class_object == NULL) return;
    const char *name = lua_tostring(L, 2);
    if (strcmp(name, "cancel") != 0 && strcmp(name, "main") != 0 && strcmp(name, "init") != 0) return;
    clua_push_class_of(L, 1);
    lua_pushvalue(L, 2);
    clua_find_in_class(L, lua_gettop(L) - 1);
    if (lua_isnil(L, -1)) lua_pop(L, 2);
}

// Pushes the field of the class table, an upvalue, with the key at stack index 2. Returns false and pushes nothing if there is none.
static bool push_method(lua_State *L) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

static int compute_property(lua_State *L) {
    return clua_call_host(L, to_pointer(L, lua_upvalueindex(3)), find_member(L, lua_upvalueindex(2)));
}

// __index of objects. Upvalues: class table, properties, get.
static int get_property(lua_State *L) { return push_method(L) ? 1 : compute_property(L); }

// The same for objects that may belong to a script class.
static int get_overridden_property(lua_State *L) {
    if (!push_method(L)) return compute_property(L);
    if (lua_type(L, 2) == LUA_TSTRING) override_method(L);
    return 1;
}

// __index of class tables. Upvalues: properties, function.
static int use_property(lua_State *L) {
    return clua_call_host(L, to_pointer(L, lua_upvalueindex(2)), find_member(L, lua_upvalueindex(1)));
}

// __newindex of objects. Upvalues: properties, function, and the name of the deferred handles' callback property or nil.
static int set_property(lua_State *L) {
    if (lua_rawequal(L, 2, lua_upvalueindex(3)) && clua_set_deferred_callback(L)) return 0;
    return use_property(L);
}

static void push_members(lua_State *L, const clua_member *members, size_t count) {
    lua_createtable(L, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, members[i].member);
        lua_setfield(L, -2, members[i].name);
    }
}

static void push_target(lua_State *L, clua_function function, int member) {
    *(target *)lua_newuserdatauv(L, sizeof(target), 0) = (target){function, member};
}

void clua_push_function(lua_State *L, clua_function function, int member) {
    push_target(L, function, member);
    lua_pushcclosure(L, clua_call_target, 1);
}

// Gives the table on top the functions of the class: the metamethods, or the others.
static void set_class_functions(lua_State *L, const clua_class *class, bool are_metamethods) {
    for (size_t i = 0; i < class->function_count; i++) {
        const clua_member *named = &class->functions[i];
        if ((strncmp(named->name, "__", 2) == 0) != are_metamethods) continue;
        lua_CFunction function = clua_deferring_function(L, class, named->member);
        push_target(L, class->call, named->member);
        lua_pushcclosure(L, function != NULL ? function : clua_call_target, 1);
        lua_setfield(L, -2, named->name);
    }
}

// Creates the class table, with functions as fields and computed properties. Pushes it.
static void push_class_table(lua_State *L, const clua_class *class) {
    lua_createtable(L, 0, (int)class->function_count);
    set_class_functions(L, class, false);
    lua_createtable(L, 0, 3);
    push_members(L, class->class_properties, class->class_property_count);
    push_pointer(L, class->class_get);
    lua_pushcclosure(L, use_property, 2);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, class->name);
    lua_setfield(L, -2, "__name");
    lua_setmetatable(L, -2);
    clua_mark_built_in_class(L, class->name);
}

// Stack: the module. Pushes the class table.
static void push_subclass_table(lua_State *L, const clua_class *class) {
    push_class_table(L, class);
    lua_getmetatable(L, -1);
    lua_getfield(L, -3, class->base);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

bool clua_class_defines(const clua_class *class, const char *function) {
    for (size_t i = 0; i < class->function_count; i++)
        if (strcmp(class->functions[i].name, function) == 0) return true;
    return false;
}

void clua_open_class(lua_State *L, const clua_class *class) {
    if (class->base != NULL) return push_subclass_table(L, class);
    push_class_table(L, class);
    lua_pushvalue(L, -1);
    clua_keep(L, CLUA_KEPT_CLASS_TABLES + class->kind);
}

// Sets the fields of the metatable on top.
static void set_metamethods(lua_State *L, const clua_class *class) {
    if (clua_push_kept(L, CLUA_KEPT_CLASS_TABLES + class->kind) != LUA_TTABLE) {
        lua_pop(L, 1);
        clua_open_class(L, class);
    }
    push_members(L, class->properties, class->property_count);
    lua_pushvalue(L, -1);
    lua_insert(L, -3);
    push_pointer(L, class->get);
    lua_pushcclosure(L, clua_class_defines(class, "subclass") ? get_overridden_property : get_property, 3);
    lua_setfield(L, -3, "__index");
    push_pointer(L, class->set);
    lua_pushstring(L, clua_deferred_property(L, class));
    lua_pushcclosure(L, set_property, 3);
    lua_setfield(L, -2, "__newindex");
    set_class_functions(L, class, true);
    clua_push_function(L, class->describe, 0);
    lua_setfield(L, -2, "__tostring");
    lua_pushstring(L, class->name);
    lua_setfield(L, -2, "__name");
    // A script that could reach the metatable could break what the host relies on.
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

void clua_push_new_metatable(lua_State *L, int kind) {
    const clua_host *host = clua_state_of(L)->host;
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    lua_createtable(L, 0, 5);
    for (size_t i = 0; i < host->class_count; i++)
        if (host->classes[i].kind == kind) set_metamethods(L, &host->classes[i]);
}
