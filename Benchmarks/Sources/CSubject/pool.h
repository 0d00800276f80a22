// A pool of threads with as little as a graph of operations needs: the limit that the engine is measured against.
#ifndef POOL_H
#define POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct node;

struct edge {
    struct node *dependent;
    struct edge *next;
};

// An operation: what it runs, how many others it waits for, who waits for it.
struct node {
    void (*body)(void *argument);
    void *argument;
    struct node *next;
    struct edge *dependents;
    // Its dependencies, and 1 until it is submitted.
    atomic_int waits_for;
    atomic_flag lock;
    bool has_ended;
    unsigned char level;
    // Whoever made it frees it.
    bool is_kept;
};

// One lock and a list for each level; or lists of each worker that others steal from.
enum pool_kind { ONE_LOCK, STEALING };

enum { LEVELS = 5 };

void pool_start(enum pool_kind kind, int workers);
struct node *node_make(void (*body)(void *), void *argument);
void node_depend(struct node *node, struct node *on);
// Runs it as soon as what it waits for has ended.
void node_submit(struct node *node);
// Holds back what is submitted.
void pool_suspend(bool suspended);
// Waits until everything that was submitted has ended.
void pool_wait(void);

#endif
