// The lower limit in C: `CSubject WORKLOAD COUNT` prints two numbers, as the other subjects do. `WORKLOAD/lock` and `WORKLOAD/steal`
// choose the pool.
#define _GNU_SOURCE
#include "pool.h"

#include <malloc.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double clock_time(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double now(void) { return clock_time(CLOCK_MONOTONIC); }

static double allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd);
}

static void nothing(void *argument) { (void)argument; }

static double flood(int count) {
    double start = now();
    for (int i = 0; i < count; i++) node_submit(node_make(nothing, NULL));
    pool_wait();
    return (now() - start) / count;
}

static double submitted_bytes;

static double submit(int count) {
    pool_suspend(true);
    double before = allocated(), start = now();
    for (int i = 0; i < count; i++) node_submit(node_make(nothing, NULL));
    double time = now() - start;
    submitted_bytes = (allocated() - before) / count;
    pool_suspend(false);
    pool_wait();
    return time / count;
}

static double submit_bytes(int count) {
    submit(count);
    return submitted_bytes;
}

static struct node *make_kept(void) {
    struct node *node = node_make(nothing, NULL);
    node->is_kept = true;
    return node;
}

static void free_all(struct node **nodes, int count) {
    for (int i = 0; i < count; i++) free(nodes[i]);
    free(nodes);
}

// Measures only the running, not the submitting.
static double chain(int count) {
    struct node **nodes = malloc(sizeof *nodes * (size_t)count);
    for (int i = 0; i < count; i++) {
        nodes[i] = make_kept();
        if (i > 0) node_depend(nodes[i], nodes[i - 1]);
    }
    for (int i = 1; i < count; i++) node_submit(nodes[i]);
    double start = now();
    node_submit(nodes[0]);
    pool_wait();
    double time = now() - start;
    free_all(nodes, count);
    return time / count;
}

static double fan(int count) {
    double start = now();
    struct node **nodes = malloc(sizeof *nodes * (size_t)(count + 2));
    struct node *first = nodes[count] = make_kept(), *last = nodes[count + 1] = make_kept();
    for (int i = 0; i < count; i++) {
        nodes[i] = make_kept();
        node_depend(nodes[i], first);
        node_depend(last, nodes[i]);
        node_submit(nodes[i]);
    }
    node_submit(last);
    node_submit(first);
    pool_wait();
    free_all(nodes, count + 2);
    return (now() - start) / count;
}

static double layered(int count) {
    int width = count / 10 < 8 ? 8 : count / 10 > 1000 ? 1000 : count / 10;
    int layers = count / width < 2 ? 2 : count / width;
    double start = now();
    struct node **nodes = malloc(sizeof *nodes * (size_t)(width * layers));
    for (int layer = 0; layer < layers; layer++) {
        struct node **these = nodes + layer * width, **before = these - width;
        for (int i = 0; i < width; i++) {
            these[i] = make_kept();
            if (layer > 0) {
                node_depend(these[i], before[i]);
                node_depend(these[i], before[(i + 1) % width]);
                node_depend(these[i], before[(i + 7) % width]);
            }
            node_submit(these[i]);
        }
    }
    pool_wait();
    free_all(nodes, width * layers);
    return (now() - start) / ((double)layers * width);
}

static int by_value(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

// Returns the median in microseconds.
static double ping(int count) {
    double *times = malloc(sizeof *times * (size_t)count);
    for (int i = 0; i < count; i++) {
        double start = now();
        node_submit(node_make(nothing, NULL));
        pool_wait();
        times[i] = now() - start;
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    double median = times[count / 2] / 1000;
    free(times);
    return median;
}

static double priorities(int count) {
    double start = now();
    for (int i = 0; i < count; i++) {
        struct node *node = node_make(nothing, NULL);
        node->level = (unsigned char)(i % LEVELS);
        node_submit(node);
    }
    pool_wait();
    return (now() - start) / count;
}

static volatile uint64_t computed;

static void compute(void *argument) {
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 8000000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    computed = state;
    (void)argument;
}

// How many times faster the computations finish on two workers than on one thread.
static double speed_up(int count) {
    double start = now();
    for (int i = 0; i < count; i++) compute(NULL);
    double alone = now() - start;
    start = now();
    for (int i = 0; i < count; i++) node_submit(node_make(compute, NULL));
    pool_wait();
    return alone / (now() - start);
}

// One program after the other, in microseconds.
static double spawn(int count) {
    double start = now();
    for (int i = 0; i < count; i++) {
        char *arguments[] = {"true", NULL};
        pid_t pid;
        int status = -1;
        if (posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0) abort();
    }
    return (now() - start) / count / 1e3;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        double (*run)(int count);
        int workers; // 0: one for each processor
    } workloads[] = {
        {"W1", flood, 0},  {"W1s", submit, 0}, {"W1s-bytes", submit_bytes, 0}, {"W2", chain, 0},      {"W3", fan, 0},
        {"W4", layered, 0}, {"W5", ping, 0},    {"W6", flood, 1},               {"W7", priorities, 0}, {"W8", speed_up, 2},
        {"R4", spawn, 1},
    };
    int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count < 1) {
        printf("usage: %s WORKLOAD[/lock|/steal] COUNT\n", argv[0]);
        return 2;
    }
    char *slash = strchr(argv[1], '/');
    enum pool_kind kind = slash && strcmp(slash, "/steal") == 0 ? STEALING : ONE_LOCK;
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (strcmp(argv[1], workloads[i].name) != 0) continue;
        int workers = workloads[i].workers ? workloads[i].workers : (int)sysconf(_SC_NPROCESSORS_ONLN);
        pool_start(kind, workers);
        workloads[i].run(count < 10 ? 1 : count / 10);
        double start = clock_time(CLOCK_PROCESS_CPUTIME_ID), value = workloads[i].run(count);
        printf("%.3f %.3f\n", value, (clock_time(CLOCK_PROCESS_CPUTIME_ID) - start) / count);
        return 0;
    }
    return 3;
}
