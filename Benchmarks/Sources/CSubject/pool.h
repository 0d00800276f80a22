// A minimal pool of threads for graphs of operations: the limit that the engine is measured against.
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

// An operation: its function, the number of nodes it waits for, and the nodes that wait for it.
struct node {
    void (*body)(void *argument);
    void *argument;
    struct node *next;
    struct edge *dependents;
    // The number of unfinished dependencies, plus 1 until the node is submitted.
    atomic_int waits_for;
    atomic_flag lock;
    bool has_ended;
    unsigned char level;
    // The caller that made the node frees it.
    bool is_kept;
};

// One lock with a list for each level, or a deque for each worker, from which other workers steal.
enum pool_kind { ONE_LOCK, STEALING };

enum { LEVELS = 5 };

void pool_start(enum pool_kind kind, int workers);
struct node *node_make(void (*body)(void *), void *argument);
void node_depend(struct node *node, struct node *on);
// Runs the node as soon as its dependencies have ended.
void node_submit(struct node *node);
// While suspended, the pool holds back submitted nodes.
void pool_suspend(bool suspended);
// Waits until every submitted node has ended.
void pool_wait(void);

#endif
