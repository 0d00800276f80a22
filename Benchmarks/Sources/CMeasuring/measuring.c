#define _GNU_SOURCE
#include "CMeasuring.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { warm_up = 1000, rounds = 20000 };

struct line {
    _Alignas(128) _Atomic int turn;
    int processor;
};

static void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void take(struct line *line, int turn) {
    while (atomic_load_explicit(&line->turn, memory_order_acquire) != turn) {}
    atomic_store_explicit(&line->turn, turn + 1, memory_order_release);
}

static void *answer(void *argument) {
    struct line *line = argument;
    stay_on(line->processor);
    for (int round = 0; round < warm_up + rounds; round++) take(line, 2 * round + 1);
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double cmeasuring_round_trip(void) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return 0;
    int first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    struct line line = {.processor = first + 1};
    while (!CPU_ISSET(line.processor, &all)) line.processor++;
    stay_on(first);
    pthread_t thread;
    double start = 0;
    if (pthread_create(&thread, NULL, answer, &line) == 0) {
        for (int round = 0; round < warm_up + rounds; round++) {
            if (round == warm_up) start = now();
            take(&line, 2 * round);
        }
        start = now() - start;
        pthread_join(thread, NULL);
    }
    sched_setaffinity(0, sizeof all, &all);
    return start / rounds;
}

// With a constant start value, the compiler would replace the loop by a constant.
uint64_t cmeasuring_compute_briefly(void) {
    static volatile uint64_t seed = 88172645463325252;
    uint64_t state = seed;
    for (int i = 0; i < 104; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}
