// A minimal pool of Lua states in C. Each state compiles a function once and knows it by a number; a simple serialiser copies the
// values. `CLuaSubject WORKLOAD COUNT` prints two numbers, as the other subjects do.
#define _GNU_SOURCE
#include "handles.h"

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 2 };

struct bytes {
    char *data;
    size_t count, capacity, read;
};

struct job {
    int function;
    struct bytes value;
    struct job *next;
};

struct list {
    struct job *first, *last;
};

static const char *const functions[] = {"return function() end", "return function(sent) return sent end"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_jobs = PTHREAD_COND_INITIALIZER, has_results = PTHREAD_COND_INITIALIZER;
static struct list jobs, results;
static int idle_workers;
static bool main_waits;

static double clock_time(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double now(void) { return clock_time(CLOCK_MONOTONIC); }

// Values -------------------------------------------------------------------------------------------------------------

static void put(struct bytes *bytes, const void *data, size_t count) {
    if (bytes->count + count > bytes->capacity) {
        bytes->capacity = (bytes->count + count) * 2;
        bytes->data = realloc(bytes->data, bytes->capacity);
    }
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

static void get(struct bytes *bytes, void *data, size_t count) {
    memcpy(data, bytes->data + bytes->read, count);
    bytes->read += count;
}

static void write_value(lua_State *lua, int index, struct bytes *bytes) {
    index = lua_absindex(lua, index);
    char type = (char)lua_type(lua, index);
    if (type == LUA_TNUMBER && lua_isinteger(lua, index)) type = 'i';
    put(bytes, &type, 1);
    switch (type) {
    case 'i': {
        lua_Integer value = lua_tointeger(lua, index);
        put(bytes, &value, sizeof value);
        break;
    }
    case LUA_TNUMBER: {
        lua_Number value = lua_tonumber(lua, index);
        put(bytes, &value, sizeof value);
        break;
    }
    case LUA_TBOOLEAN: {
        char value = (char)lua_toboolean(lua, index);
        put(bytes, &value, 1);
        break;
    }
    case LUA_TSTRING: {
        size_t count;
        const char *text = lua_tolstring(lua, index, &count);
        put(bytes, &count, sizeof count);
        put(bytes, text, count);
        break;
    }
    case LUA_TTABLE: {
        char end = LUA_TNIL;
        luaL_checkstack(lua, 8, NULL);
        for (lua_pushnil(lua); lua_next(lua, index); lua_pop(lua, 1)) {
            write_value(lua, -2, bytes);
            write_value(lua, -1, bytes);
        }
        put(bytes, &end, 1);
    }
    }
}

static bool read_value(lua_State *lua, struct bytes *bytes) {
    char type;
    get(bytes, &type, 1);
    switch (type) {
    case 'i': {
        lua_Integer value;
        get(bytes, &value, sizeof value);
        lua_pushinteger(lua, value);
        break;
    }
    case LUA_TNUMBER: {
        lua_Number value;
        get(bytes, &value, sizeof value);
        lua_pushnumber(lua, value);
        break;
    }
    case LUA_TBOOLEAN: {
        char value;
        get(bytes, &value, 1);
        lua_pushboolean(lua, value);
        break;
    }
    case LUA_TSTRING: {
        size_t count;
        get(bytes, &count, sizeof count);
        lua_pushlstring(lua, bytes->data + bytes->read, count);
        bytes->read += count;
        break;
    }
    case LUA_TTABLE:
        luaL_checkstack(lua, 8, NULL);
        lua_newtable(lua);
        while (read_value(lua, bytes)) {
            read_value(lua, bytes);
            lua_rawset(lua, -3);
        }
        break;
    default: return false;
    }
    return true;
}

// Workers --------------------------------------------------------------------------------------------------------------

static void append(struct list *list, struct job *job) {
    job->next = NULL;
    if (list->last) list->last->next = job;
    else list->first = job;
    list->last = job;
}

static struct job *pop(struct list *list) {
    struct job *job = list->first;
    if (job) list->first = job->next;
    if (!list->first) list->last = NULL;
    return job;
}

static void *work(void *argument) {
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        luaL_loadstring(lua, functions[i]);
        lua_call(lua, 0, 1);
    }
    pthread_mutex_lock(&lock);
    while (true) {
        struct job *job = pop(&jobs);
        if (!job) {
            idle_workers++;
            pthread_cond_wait(&has_jobs, &lock);
            idle_workers--;
            continue;
        }
        pthread_mutex_unlock(&lock);
        lua_pushvalue(lua, job->function + 1);
        int count = job->value.count > 0 && read_value(lua, &job->value);
        lua_pcall(lua, count, 1, 0);
        job->value.count = job->value.read = 0;
        write_value(lua, -1, &job->value);
        lua_pop(lua, 1);
        pthread_mutex_lock(&lock);
        append(&results, job);
        if (main_waits) pthread_cond_signal(&has_results);
    }
    return argument;
}

// Sends the value on top of the stack along, if there is one.
static void submit(lua_State *lua, int function) {
    struct job *job = calloc(1, sizeof *job);
    job->function = function;
    if (lua_gettop(lua) > 0) write_value(lua, -1, &job->value);
    pthread_mutex_lock(&lock);
    append(&jobs, job);
    bool mustWake = idle_workers > 0;
    pthread_mutex_unlock(&lock);
    if (mustWake) pthread_cond_signal(&has_jobs);
}

// Leaves the result on the stack.
static void receive(lua_State *lua) {
    pthread_mutex_lock(&lock);
    struct job *job;
    while (!(job = pop(&results))) {
        main_waits = true;
        pthread_cond_wait(&has_results, &lock);
        main_waits = false;
    }
    pthread_mutex_unlock(&lock);
    if (!read_value(lua, &job->value)) lua_pushnil(lua);
    free(job->value.data);
    free(job);
}

// Workloads ------------------------------------------------------------------------------------------------------------

static double flood(lua_State *lua, int count) {
    double start = now();
    for (int i = 0; i < count; i++) submit(lua, 0);
    for (int i = 0; i < count; i++) {
        receive(lua);
        lua_pop(lua, 1);
    }
    return (now() - start) / count;
}

static int by_value(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

// Returns the median in microseconds.
static double ping(lua_State *lua, int count) {
    double *times = malloc(sizeof *times * (size_t)count);
    for (int i = 0; i < count; i++) times[i] = flood(lua, 1);
    qsort(times, (size_t)count, sizeof *times, by_value);
    double median = times[count / 2] / 1000;
    free(times);
    return median;
}

static double exchange(lua_State *lua, const char *value, int count) {
    luaL_dostring(lua, value);
    double start = now();
    for (int i = 0; i < count; i++) {
        submit(lua, 1);
        receive(lua);
        lua_pop(lua, 1);
    }
    double time = (now() - start) / count / 1000;
    lua_settop(lua, 0);
    return time;
}

static double string(lua_State *lua, int count) { return exchange(lua, "return ('x'):rep(1000000)", count); }

// Returns milliseconds.
static double rows(lua_State *lua, int count) {
    return exchange(lua, "local rows = {} "
                         "for i = 1, 10000 do rows[i] = { id = i, name = 'row ' .. i, score = i / 3 } end return rows", count) / 1000;
}

// Embedding --------------------------------------------------------------------------------------------------------------

static int add(lua_State *lua) {
    lua_pushinteger(lua, luaL_checkinteger(lua, 1) + luaL_checkinteger(lua, 2));
    return 1;
}

static double call_from_lua(lua_State *lua, int count) {
    lua_register(lua, "add", add);
    luaL_loadstring(lua, "local count, sum, add = ..., 0, add; for i = 1, count do sum = add(sum, i) end return sum");
    lua_pushinteger(lua, count);
    double start = now();
    lua_call(lua, 1, 1);
    double time = (now() - start) / count;
    lua_settop(lua, 0);
    return time;
}

// Returns microseconds.
static double make_and_close(lua_State *lua, int count) {
    (void)lua;
    double start = now();
    for (int i = 0; i < count; i++) {
        lua_State *made = luaL_newstate();
        luaL_openlibs(made);
        lua_close(made);
    }
    return (now() - start) / count / 1000;
}

static double handles(lua_State *lua, int count) {
    double start = now();
    run_handles(lua, count);
    return (now() - start) / count;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        double (*run)(lua_State *lua, int count);
    } workloads[] = {{"L1", flood}, {"L1h", flood}, {"L1-handles", handles}, {"L5", ping}, {"T1", string}, {"T2", rows},
                   {"H1", call_from_lua}, {"H2", call_from_lua}, {"H3", make_and_close}};
    int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count < 1) {
        printf("usage: %s WORKLOAD COUNT\n", argv[0]);
        return 2;
    }
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (strcmp(argv[1], workloads[i].name) != 0) continue;
        for (int worker = 0; worker < WORKERS; worker++) {
            pthread_t thread;
            pthread_create(&thread, NULL, work, NULL);
        }
        workloads[i].run(lua, count < 10 ? 1 : count / 10);
        double start = clock_time(CLOCK_PROCESS_CPUTIME_ID), value = workloads[i].run(lua, count);
        printf("%.3f %.3f\n", value, (clock_time(CLOCK_PROCESS_CPUTIME_ID) - start) / count);
        return 0;
    }
    return 3;
}
