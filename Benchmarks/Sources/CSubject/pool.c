#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 16, MAX_WORKERS = 64, DEQUE = 1 << 13, SPINS = 2000 };

struct list {
    struct node *first, *last;
};

// A Chase-Lev deque: its worker pushes and pops at the bottom, other workers steal at the top. Nodes that do not fit are put on the lists.
struct deque {
    _Alignas(64) atomic_long top;
    _Alignas(64) atomic_long bottom;
    struct node *_Atomic slots[DEQUE];
};

static enum pool_kind kind;
static int worker_count;
static pthread_mutex_t lock;
static struct list ready[LEVELS];
static atomic_long queued; // the number of nodes on the lists
static atomic_bool suspended;
static atomic_int searching; // allows only one wake-up at a time
static atomic_int asleep;
static atomic_uint wakeups;
static _Alignas(64) atomic_long unfinished;
static atomic_uint ended;
static struct deque *deques;
static _Thread_local struct deque *own;

static void futex_wait(atomic_uint *word, unsigned value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); }
static void futex_wake(atomic_uint *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The lists ---------------------------------------------------------------------------------------------------------

static void wake_one(void) {
    if (atomic_load(&asleep) == 0 || atomic_exchange(&searching, 1)) return;
    atomic_fetch_add(&wakeups, 1);
    futex_wake(&wakeups, 1);
}

static void append(struct node *node) {
    struct list *list = &ready[node->level];
    node->next = NULL;
    if (list->last) list->last->next = node;
    else list->first = node;
    list->last = node;
}

// The nodes are linked through `next`.
static void push(struct node *nodes, long count) {
    pthread_mutex_lock(&lock);
    for (struct node *next; nodes; nodes = next) {
        next = nodes->next;
        append(nodes);
    }
    atomic_fetch_add_explicit(&queued, count, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    if (!atomic_load_explicit(&suspended, memory_order_relaxed)) wake_one();
}

// Returns some of the first nodes of the highest level, linked through `next`.
static struct node *take_some(void) {
    if (atomic_load(&suspended) || atomic_load(&queued) == 0) return NULL;
    pthread_mutex_lock(&lock);
    struct node *first = NULL;
    for (int level = 0; level < LEVELS && !first; level++) {
        struct list *list = &ready[level];
        first = list->first;
        struct node *last = first;
        long count = first ? 1 : 0, share = atomic_load_explicit(&queued, memory_order_relaxed) / worker_count;
        while (last && last->next && count < BATCH && count < share) {
            last = last->next;
            count++;
        }
        if (!last) continue;
        list->first = last->next;
        if (!list->first) list->last = NULL;
        last->next = NULL;
        atomic_fetch_sub_explicit(&queued, count, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return first;
}

// Stealing ----------------------------------------------------------------------------------------------------------

static bool deque_push(struct deque *deque, struct node *node) {
    long bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    if (bottom - atomic_load_explicit(&deque->top, memory_order_acquire) >= DEQUE) return false;
    atomic_store_explicit(&deque->slots[bottom % DEQUE], node, memory_order_relaxed);
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
    return true;
}

static struct node *deque_pop(struct deque *deque) {
    long bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    atomic_store_explicit(&deque->bottom, bottom, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    long top = atomic_load_explicit(&deque->top, memory_order_relaxed);
    struct node *node = NULL;
    if (top <= bottom) {
        node = atomic_load_explicit(&deque->slots[bottom % DEQUE], memory_order_relaxed);
        if (top < bottom) return node;
        if (!atomic_compare_exchange_strong(&deque->top, &top, top + 1)) node = NULL;
    }
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_relaxed);
    return node;
}

static struct node *deque_steal(struct deque *deque) {
    long top = atomic_load_explicit(&deque->top, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    if (top >= atomic_load_explicit(&deque->bottom, memory_order_acquire)) return NULL;
    struct node *node = atomic_load_explicit(&deque->slots[top % DEQUE], memory_order_relaxed);
    return atomic_compare_exchange_strong(&deque->top, &top, top + 1) ? node : NULL;
}

static struct node *steal(void) {
    for (int i = 0; i < worker_count; i++) {
        struct node *node = &deques[i] == own ? NULL : deque_steal(&deques[i]);
        if (node) return node;
    }
    return NULL;
}

// Nodes ----------------------------------------------------------------------------------------------------------------

struct node *node_make(void (*body)(void *), void *argument) {
    struct node *node = malloc(sizeof *node);
    *node = (struct node){.body = body, .argument = argument, .lock = ATOMIC_FLAG_INIT, .level = LEVELS / 2};
    atomic_init(&node->waits_for, 1);
    return node;
}

static void node_lock(struct node *node) {
    for (int spins = 0; atomic_flag_test_and_set_explicit(&node->lock, memory_order_acquire); spins++) {
        if (spins < 60) relax();
        else sched_yield();
    }
}
static void node_unlock(struct node *node) { atomic_flag_clear_explicit(&node->lock, memory_order_release); }

void node_depend(struct node *node, struct node *on) {
    struct edge *edge = malloc(sizeof *edge);
    node_lock(on);
    bool has_ended = on->has_ended;
    if (!has_ended) {
        *edge = (struct edge){node, on->dependents};
        on->dependents = edge;
        atomic_fetch_add_explicit(&node->waits_for, 1, memory_order_relaxed);
    }
    node_unlock(on);
    if (has_ended) free(edge);
}

void node_submit(struct node *node) {
    atomic_fetch_add_explicit(&unfinished, 1, memory_order_relaxed);
    if (atomic_fetch_sub(&node->waits_for, 1) > 1) return;
    node->next = NULL;
    push(node, 1);
}

// Runs a node and then one of the nodes that it released. Other workers may take the rest.
static void run(struct node *node) {
    while (node) {
        node->body(node->argument);
        struct edge *edge = NULL;
        if (node->is_kept) {
            node_lock(node);
            node->has_ended = true;
            edge = node->dependents;
            node->dependents = NULL;
            node_unlock(node);
        } else {
            free(node);
        }
        struct node *next = NULL, *others = NULL;
        long count = 0;
        for (struct edge *following; edge; edge = following) {
            following = edge->next;
            struct node *dependent = edge->dependent;
            free(edge);
            if (atomic_fetch_sub(&dependent->waits_for, 1) > 1) continue;
            if (!next) {
                next = dependent;
            } else if (kind == STEALING && deque_push(own, dependent)) {
                wake_one();
            } else {
                dependent->next = others;
                others = dependent;
                count++;
            }
        }
        if (others) push(others, count);
        if (atomic_fetch_sub_explicit(&unfinished, 1, memory_order_acq_rel) == 1) {
            atomic_fetch_add(&ended, 1);
            futex_wake(&ended, 1);
        }
        node = next;
    }
}

static bool work_once(void) {
    struct node *node = take_some();
    if (!node && kind == STEALING) {
        node = steal();
        if (node) node->next = NULL;
    }
    if (!node) return false;
    if (atomic_exchange(&searching, 0) || atomic_load(&queued) > 0) wake_one();
    for (struct node *next; node; node = next) {
        next = node->next;
        run(node);
        if (kind == STEALING) {
            for (struct node *popped; (popped = deque_pop(own)); run(popped)) {}
        }
    }
    return true;
}

static void *work(void *argument) {
    own = argument;
    while (true) {
        bool found = work_once();
        for (int i = 0; !found && i < SPINS; i++) {
            relax();
            found = work_once();
        }
        if (found) continue;
        unsigned seen = atomic_load(&wakeups);
        atomic_fetch_add(&asleep, 1);
        atomic_store(&searching, 0);
        if (!work_once()) futex_wait(&wakeups, seen);
        atomic_fetch_sub(&asleep, 1);
    }
    return NULL;
}

void pool_start(enum pool_kind chosen, int workers) {
    kind = chosen;
    worker_count = workers > MAX_WORKERS ? MAX_WORKERS : workers;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&lock, &attributes);
    deques = aligned_alloc(64, sizeof *deques * (size_t)worker_count);
    for (int i = 0; i < worker_count; i++) {
        atomic_init(&deques[i].top, 0);
        atomic_init(&deques[i].bottom, 0);
        pthread_t thread;
        pthread_create(&thread, NULL, work, &deques[i]);
        pthread_detach(thread);
    }
}

void pool_suspend(bool value) {
    atomic_store(&suspended, value);
    if (!value) wake_one();
}

void pool_wait(void) {
    while (true) {
        unsigned seen = atomic_load(&ended);
        if (atomic_load_explicit(&unfinished, memory_order_acquire) == 0) return;
        futex_wait(&ended, seen);
    }
}
