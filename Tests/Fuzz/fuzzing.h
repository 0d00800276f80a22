// Shared by the libFuzzer targets: a host with one object, and the seeds, which are parcels.
#ifndef FUZZING_H
#define FUZZING_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CLua.h"
#include "Objects/object_raising.h"

enum { MOST_SEEDS = 64, KIND = 1 };

static clua_parcel seeds[MOST_SEEDS];
static int seed_count;
static int references;  // references to the host's only object

static void retain(void *object) { ++*(int *)object; }
static void release(void *object) { --*(int *)object; }
static void call(lua_State *L, int member, clua_reply *reply) { (void)L, (void)member, (void)reply; }
static void sent(lua_State *L, const clua_parcel *parcel) { (void)L, (void)parcel; }

static void check(bool is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "fuzzer: %s\n", what);
    abort();
}

static lua_State *new_state(const clua_host *host) {
    lua_State *L = clua_state_new(NULL, host, CLUA_NO_ENVIRONMENT);
    check(L != NULL, "no state");
    return L;
}

static const char *option(int count, char **arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], name, length) == 0) return arguments[i] + length;
    return NULL;
}

static void make_seeds(const char *path, const clua_host *host) {
    lua_State *L = new_state(host);
    if (luaL_loadfile(L, path) != LUA_OK) check(false, lua_tostring(L, -1));
    clua_push_handle(L, &references, KIND);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) check(false, lua_tostring(L, -1));
    seed_count = (int)lua_rawlen(L, -1);
    check(seed_count > 0 && seed_count <= MOST_SEEDS, "too many seeds, or none");
    for (int i = 0; i < seed_count; i++) {
        lua_settop(L, 1);
        lua_rawgeti(L, 1, i + 1);
        if (lua_pcall(L, 0, LUA_MULTRET, 0) != LUA_OK) check(false, lua_tostring(L, -1));
        if (clua_encode(L, lua_gettop(L) - 1, CLUA_STORED, &seeds[i]) != LUA_OK) check(false, lua_tostring(L, -1));
    }
    clua_state_close(L);
}

// Makes the seeds. Returns the folder for the initial inputs, or NULL if none are asked for.
static const char *begin(int count, char **arguments, const clua_host *host) {
    clua_set_object_functions((clua_object_functions){.retain = retain, .release = release});
    const char *path = option(count, arguments, "--seeds=");
    check(path != NULL, "usage: --seeds=FILE [--write=DIRECTORY] [CORPUS]");
    make_seeds(path, host);
    return option(count, arguments, "--write=");
}

static FILE *open_seed(const char *directory, int seed, int variant) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%d-%d", directory, seed, variant);
    FILE *file = fopen(path, "wb");
    check(file != NULL, "cannot write the seeds");
    return file;
}

#endif
