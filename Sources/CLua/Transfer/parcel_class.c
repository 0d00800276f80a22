// Operation classes in a parcel: their identity travels by reference, their contents by value.
#include "Transfer/parcel_class.h"

#include "Libraries/environment_raising.h"
#include "Objects/class_raising.h"
#include "Transfer/parcel_format.h"
#include "Transfer/parcel_rebuild.h"

static void write_reference(encoder *e, void *object, int kind) {
    writer_varint(&e->writer, e->references.count);
    *(clua_reference *)encoder_append(e, &e->references, sizeof(clua_reference)) = (clua_reference){object, kind, false};
    clua_object_retain(object);
}

void encode_handle(encoder *e, const clua_handle *handle) {
    lua_State *L = e->L;
    if (handle->class_object != NULL) {
        clua_push_known_class(L, handle->class_object);
        if (!lua_isnil(L, -1)) {
            writer_byte(&e->writer, CLUA_TAG_INSTANCE);
            write_reference(e, handle->object, handle->kind);
            encode_value(e, 0);
            lua_pop(L, 1);
            return;
        }
        lua_pop(L, 1);
    }
    writer_byte(&e->writer, CLUA_TAG_HANDLE);
    write_reference(e, handle->object, handle->kind);
}

void encode_class(encoder *e, const clua_handle *class) {
    lua_State *L = e->L;
    pointer_entry *entry = encode_again(e, lua_topointer(L, -1));
    if (entry == NULL) return;
    uint32_t ordinal = encode_begin(e, entry, CLUA_TAG_CLASS);
    write_reference(e, class->object, class->kind);
    // An error inside a class does not depend on the path to the class.
    const path_step *before = e->path;
    lua_getmetatable(L, -1);
    lua_getfield(L, -1, "__name");
    e->path = encoder_step(e, PATH_CLASS, 0, lua_tostring(L, -1), NULL);
    lua_pop(L, 2);
    encode_later(e, ordinal);
    e->path = before;
}

void encode_class_record(encoder *e, uint32_t ordinal) {
    lua_State *L = e->L;
    int class = lua_gettop(L);
    lua_Integer version = clua_push_class_contents(L, class);
    size_t count;
    const char *name = lua_tolstring(L, class + 2, &count);
    writer_byte(&e->writer, CLUA_TAG_CLASS_BODY);
    writer_varint(&e->writer, ordinal);
    writer_varint(&e->writer, (uint64_t)version);
    writer_string(&e->writer, name, count);
    encode_value(e, 1);  // the superclass
    lua_settop(L, class + 1);
    lua_pushvalue(L, -1);
    encoder_anchor(e);  // keeps the address unique
    encode_value(e, 1);
    lua_settop(L, class);
}
