#include <stdint.h>

#include "Transfer/lent_string_raising.h"
#include "parcel.h"

// The data of an allocator that lends one block, and then is replaced by the usual one.
typedef struct loan {
    lua_State *L;
    lua_Alloc usual;
    void *context;
    clua_state *state;
    clua_shared_string *string;
    bool is_lent;
} loan;

static void *lend(void *context, void *block, size_t old_size, size_t new_size) {
    loan *made = context;
    clua_state *state = made->state;
    clua_shared_string *string = made->string;
    lua_setallocf(made->L, made->usual, made->context);
    size_t header = new_size - (string->count + 1);
    bool fits = block == NULL && new_size > string->count && header <= CLUA_STRING_ROOM && header % sizeof(void *) == 0 &&
                state->used_bytes + new_size <= state->limit_bytes;
    if (!fits || !clua_note_lent_string(state, string)) return made->usual(made->context, block, old_size, new_size);
    state->used_bytes += new_size;
    made->is_lent = true;
    return (char *)string->bytes - header;
}

void clua_push_shared_string(lua_State *L, clua_shared_string *string) {
    bool has_room = true;
    if (string->has_room != NULL && string->count >= CLUA_MIN_SHARED_STRING && atomic_compare_exchange_strong(string->has_room, &has_room, false)) {
        loan made = {.L = L, .state = clua_state_of(L), .string = string};
        made.usual = lua_getallocf(L, &made.context);
        lua_setallocf(L, lend, &made);
        // The first block that Lua asks for is the string's.
        lua_pushlstring(L, string->bytes, string->count);
        if (!made.is_lent) atomic_store(string->has_room, true);
    } else {
        lua_pushlstring(L, string->bytes, string->count);
    }
}
