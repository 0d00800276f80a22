// Operation classes that scripts define: the parts that call the host or the script.
#include <lua5.4/lauxlib.h>
#include <string.h>

#include "Calls/callback_raising.h"
#include "Objects/class_raising.h"
#include "Objects/object_raising.h"
#include "callback.h"
#include "run.h"

void clua_push_class_of(lua_State *L, int index) {
    void *object = clua_to_handle(L, index)->class_object;
    clua_push_known_class(L, object);
    if (!lua_isnil(L, -1)) return;
    lua_pop(L, 1);
    clua_reply reply = {.kind = CLUA_REPLY_NIL};
    clua_state_of(L)->host->class_contents(L, object, &reply);
    if (reply.kind != CLUA_REPLY_PARCEL) luaL_error(L, "nothing of the operation's class has been sent to this state");
    int top = lua_gettop(L);
    int status = clua_decode(L, reply.parcel, CLUA_CURRENT_ENVIRONMENT);
    clua_object_release(reply.parcel_owner);
    if (status != LUA_OK) lua_error(L);
    lua_settop(L, top + 1);
    if (clua_class_handle(L, -1) == NULL) luaL_error(L, "the operation's class is a %s here", luaL_typename(L, -1));
    clua_adopt_class(L, object);
}

// Stack: the address of a boolean, the operation, the class.
static int is_kind_of(lua_State *L) {
    bool *is_kind = lua_touserdata(L, 1);
    clua_push_class_of(L, 2);
    int class = lua_gettop(L);
    for (;;) {
        *is_kind = lua_rawequal(L, class, 3);
        if (*is_kind || !clua_push_parent(L, class)) return 0;
        lua_replace(L, class);
    }
}

int clua_is_kind_of(lua_State *L, int operation, int class, bool *is_kind, clua_failure *failure) {
    memset(failure, 0, sizeof *failure);
    if (!lua_checkstack(L, LUA_MINSTACK)) return clua_refuse(failure, "stack overflow");
    lua_pushcfunction(L, is_kind_of);
    lua_pushlightuserdata(L, is_kind);
    lua_pushvalue(L, operation);
    lua_pushvalue(L, class);
    return clua_call(L, 3, 0, failure);
}

typedef struct cancelling {
    void *object;
    int kind;
    bool *has;
} cancelling;

static int call_cancel(lua_State *L) {
    const cancelling *cancelling = lua_touserdata(L, 1);
    clua_push_handle(L, cancelling->object, cancelling->kind);
    clua_push_class_of(L, 2);
    clua_push_class_field(L, 3, "cancel");
    *cancelling->has = !lua_isnil(L, -1);
    if (!*cancelling->has) return 0;
    if (clua_state_of(L)->wrap_function != NULL) clua_state_of(L)->wrap_function(L, -1);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 0);
    return 0;
}

int clua_call_cancel(lua_State *L, void *object, int kind, bool *has, clua_failure *failure) {
    cancelling cancelling = {object, kind, has};
    return clua_protect(L, call_cancel, &cancelling, 0, failure);
}
