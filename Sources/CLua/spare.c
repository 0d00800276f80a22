#include "registry_raising.h"
#include "spare_raising.h"

static int kept_place(clua_state *state, const clua_spare *spare) { return CLUA_KEPT_SPARES + (int)(spare - state->spares); }

// The place that is free now is that of the closure on top, which stays.
static void keep(lua_State *L, clua_spare *spare, clua_code *code) {
    lua_pushvalue(L, -1);
    clua_keep(L, kept_place(clua_state_of(L), spare));
    clua_code_retain(code);
    clua_code_release(spare->code);
    spare->code = code;
}

clua_spare *clua_push_spare(lua_State *L, clua_code *code) {
    clua_state *state = clua_state_of(L);
    clua_spare *spare = &state->spares[(uintptr_t)code / sizeof(clua_code) % CLUA_SPARE_COUNT];
    if (spare->code == code && !spare->is_running) {
        clua_push_kept(L, kept_place(state, spare));
        state->reuse_count++;
    } else {
        clua_code_instantiate(L, code);
        if (spare->is_running) return NULL;  // the operation waits, and this is another one
        keep(L, spare, code);
    }
    spare->is_running = true;
    spare->look_count = state->look_count;
    return spare;
}

void clua_spare_has_returned(lua_State *L, clua_spare *spare) {
    if (spare->look_count != clua_state_of(L)->look_count)
        clua_spare_drop(L, spare);
    else
        spare->is_running = false;
}

void clua_spare_drop(lua_State *L, clua_spare *spare) {
    lua_pushboolean(L, 0);
    clua_keep(L, kept_place(clua_state_of(L), spare));
    clua_code_release(spare->code);
    *spare = (clua_spare){0};
}

void clua_spares_close(clua_state *state) {
    for (int i = 0; i < CLUA_SPARE_COUNT; i++) clua_code_release(state->spares[i].code);
}
