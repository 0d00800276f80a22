// How Lua calls the host, and how the host replies.
//
// The host must never push a string, create a table or raise while one of its frames is on the C stack, because each of these may longjmp.
// So a host function reads its arguments with functions that cannot raise, writes its answer into a clua_reply, and returns. Only then does
// this layer push the answer or raise the error.
#ifndef CLUA_CALLBACK_H
#define CLUA_CALLBACK_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "host.h"
#include "parcel.h"

typedef enum clua_reply_kind {
    CLUA_REPLY_NOTHING,         // no value
    CLUA_REPLY_NIL,
    CLUA_REPLY_BOOLEAN,         // integer
    CLUA_REPLY_INTEGER,         // integer
    CLUA_REPLY_NUMBER,          // number
    CLUA_REPLY_STRING,          // bytes
    CLUA_REPLY_HANDLE,          // `reference`
    CLUA_REPLY_HANDLES,         // an array of handles, from `references`
    CLUA_REPLY_PARCEL,          // the values in `parcel`, or the first one of each of `parcels`
    CLUA_REPLY_CLASS,           // a new script class: references[0], named `bytes`, a subclass of the class at stack index 1
    CLUA_REPLY_CLASS_FIELD,     // the field of the class of the operation at stack index 1, with the key at index 2
    CLUA_REPLY_RESULTS,         // as PARCEL, decoded once into the handle at index 1: the first value (integer 1) or a table of all;
                                // or, if `parcel` is NULL, the first value of each of `parcels`
    CLUA_REPLY_PROGRESS,        // a table: totalUnitCount = integer, completedUnitCount = integer2, fractionCompleted
    CLUA_REPLY_VALUES,          // the top `integer` values of the stack
    CLUA_REPLY_COMPLETION,      // the completion block in the handle at index 1
    CLUA_REPLY_OBSERVATION,     // `reference`; the handle at index 1 stores the function at index `integer` for it
    CLUA_REPLY_SET_COMPLETION,  // no value; the handle at index 1 gets the completion block at completion_index, or loses its own
    CLUA_REPLY_ADD_BODY,        // no value; the arguments from body_first on become the body `body_number` of the handle at index 1
    CLUA_REPLY_ARGUMENT,        // the value at stack index `integer`
    CLUA_REPLY_SENT,            // the handle at stack index `integer`, which drops its body
    CLUA_REPLY_READ,            // the parts of `stream` that the formats at stack index 2 and above ask for
    CLUA_REPLY_LINES,           // a function that reads so with each call
    CLUA_REPLY_ERROR,           // raises `bytes`, prefixed with the caller's position
    CLUA_REPLY_RAISE,           // raises the value in `parcel`, or `bytes` as they are
    CLUA_REPLY_ARGUMENT_ERROR,  // raises `bytes` as an error in argument `integer`
    CLUA_REPLY_STOP,            // stops the running body, for the clua_stop_reason `integer`
    CLUA_REPLY_NO_MEMORY        // raises the out-of-memory error
} clua_reply_kind;

/// A host function's answer. Its blocks come from malloc and this layer frees them. Its references are owned, too.
typedef struct clua_reply {
    clua_reply_kind kind;
    lua_Integer integer;
    lua_Integer integer2;
    lua_Number number;
    char *bytes;
    size_t byte_count;
    clua_reference reference;
    bool is_new;  // no state has a handle for `reference` yet
    clua_reference *references;
    size_t reference_count;
    const clua_parcel *parcel;
    const clua_parcel **parcels;  // owned array
    size_t parcel_count;
    void *parcel_owner;  // owned: keeps `parcel` and `parcels` alive
    int body_first;  // CLUA_REPLY_HANDLE: the arguments from here on become the handle's body; 0 for none
    int body_number;  // 1 and up if the operation has several bodies; 0 for a single one
    void *stream;  // of the object at stack index 1, which keeps it alive
    int completion_index;  // stack index of the new completion block; 0 for none
} clua_reply;

#endif
