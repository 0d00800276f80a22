// Reading from streams of the host, as Lua reads files. C leaves for the host only when a stream has too few bytes.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Calls/callback_raising.h"
#include "Objects/object_raising.h"
#include "protect.h"
#include "reading.h"
#include "state.h"

enum {
    FEW_BYTES = 1024,  // longer pieces need a buffer
    LONGEST_NUMERAL = 200,
};

// The upvalues of the function that `lines` returns.
enum { HANDLE = 1, STREAM, FORMAT_COUNT, FIRST_FORMAT };

enum { MOST_FORMATS = 250 };

// Pushes the bytes as a number, or nil if they are none.
static bool push_number(lua_State *L, char *bytes, size_t count) {
    bytes[count] = '\0';
    if (lua_stringtonumber(L, bytes) != 0) return true;
    lua_pushnil(L);
    return false;
}

// Pushes what `format` asks for, or nil if there is no more. Stack index 1: the object that the host's `await` waits for.
static bool read_piece(lua_State *L, void *stream, clua_read_format format, size_t wanted) {
    const clua_streaming *streaming = &clua_state_of(L)->host->streaming;
    char few[FEW_BYTES];
    luaL_Buffer buffer;
    size_t count = 0, room = sizeof few;
    char *bytes = few;
    int top = lua_gettop(L);
    for (;;) {
        int outcome = streaming->take(stream, (int)format, wanted, bytes, format == CLUA_READ_NUMERAL ? LONGEST_NUMERAL : room, &count);
        if (outcome == CLUA_TAKEN) break;
        lua_settop(L, top);
        bytes = few;
        room = sizeof few;
        if (outcome == CLUA_TAKE_END) {
            lua_pushnil(L);
            return false;
        }
        if (outcome == CLUA_TAKE_ROOM) {
            room = count;
            bytes = luaL_buffinitsize(L, &buffer, room);
        } else {
            clua_call_host(L, streaming->await, CLUA_AWAITED(outcome, count));
            lua_settop(L, top);
        }
    }
    if (format == CLUA_READ_NUMERAL) return push_number(L, few, count);
    if (bytes == few)
        lua_pushlstring(L, few, count);
    else
        luaL_pushresultsize(&buffer, count);
    return true;
}

// The format at a stack index, as `file:read` takes it.
static clua_read_format to_format(lua_State *L, int index, size_t *wanted) {
    *wanted = 0;
    if (lua_type(L, index) == LUA_TNUMBER) {
        lua_Integer count = luaL_checkinteger(L, index);
        luaL_argcheck(L, count >= 0, index, "a number of bytes is at least 0");
        *wanted = (size_t)count;
        return CLUA_READ_BYTES;
    }
    const char *name = luaL_checkstring(L, index);
    if (*name == '*') name++;
    switch (*name) {
    case 'l': return CLUA_READ_LINE;
    case 'L': return CLUA_READ_LINE_WITH_END;
    case 'n': return CLUA_READ_NUMERAL;
    case 'a': return CLUA_READ_ALL;
    default: return (clua_read_format)luaL_argerror(L, index, "invalid format");
    }
}

int clua_read(lua_State *L, void *stream, int first) {
    int last = lua_gettop(L);
    luaL_checkstack(L, last - first + 1 + LUA_MINSTACK, "too many arguments");
    if (last < first) read_piece(L, stream, CLUA_READ_LINE, 0);
    for (int i = first; i <= last; i++) {
        size_t wanted;
        clua_read_format format = to_format(L, i, &wanted);
        if (!read_piece(L, stream, format, wanted)) break;
    }
    return lua_gettop(L) - last;
}

static int next_line(lua_State *L) {
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(HANDLE));
    int count = (int)lua_tointeger(L, lua_upvalueindex(FORMAT_COUNT));
    luaL_checkstack(L, count + LUA_MINSTACK, "too many arguments");
    for (int i = 0; i < count; i++) lua_pushvalue(L, lua_upvalueindex(FIRST_FORMAT + i));
    return clua_read(L, lua_touserdata(L, lua_upvalueindex(STREAM)), 2);
}

void clua_push_lines(lua_State *L, void *stream, int first) {
    int last = lua_gettop(L), count = last - first + 1;
    if (count < 0) count = 0;
    luaL_argcheck(L, count <= MOST_FORMATS, first + MOST_FORMATS, "too many arguments");
    luaL_checkstack(L, count + LUA_MINSTACK, "too many arguments");
    size_t wanted;
    for (int i = first; i <= last; i++) to_format(L, i, &wanted);
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, stream);
    lua_pushinteger(L, count);
    for (int i = first; i <= last; i++) lua_pushvalue(L, i);
    lua_pushcclosure(L, next_line, FIRST_FORMAT - 1 + count);
}

// Stack: the object as a reference, the function. Returns the handle.
static int set_callback(lua_State *L) {
    const clua_reference *reference = lua_touserdata(L, 1);
    if (clua_state_of(L)->wrap_function != NULL) clua_state_of(L)->wrap_function(L, 2);
    clua_push_handle(L, reference->object, reference->kind);
    clua_set_completion(L, 3, 2);
    return 1;
}

int clua_set_callback(lua_State *L, clua_reference reference, int function, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, set_callback);
    lua_pushlightuserdata(L, &reference);
    lua_pushvalue(L, function);
    return clua_call(L, 2, 1, failure);
}
