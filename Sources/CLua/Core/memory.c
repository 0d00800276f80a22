// Settings of the process-wide allocator. The allocator belongs to the application, so they change only when the application asks.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // madvise
#endif
#include <pthread.h>
#include <stdlib.h>

#include "state.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef __linux__
#include <jemalloc/jemalloc.h>
#include <sys/mman.h>

// Null when the application links another allocator.
#pragma weak mallctl

enum { HUGE_PAGE_BYTES = 2 << 20 };

static extent_hooks_t usual_hooks, hooks;

// An arena starts with 2 MiB and later grows by larger extents. A thread that needs such an extent is about to use it, so a huge page pays:
// it costs one page fault instead of 512, and one TLB entry.
static void *allocate_extent(
    extent_hooks_t *self, void *address, size_t size, size_t alignment, bool *is_zeroed, bool *is_committed, unsigned arena
) {
    (void)self;
    void *extent = usual_hooks.alloc(&usual_hooks, address, size, alignment, is_zeroed, is_committed, arena);
    if (extent != NULL && size >= HUGE_PAGE_BYTES) madvise(extent, size, MADV_HUGEPAGE);
    return extent;
}

// jemalloc's own hook initializes the calling thread's data, which allocates. A thread whose first call is `free` gets here with the arena's
// lock held, and would wait for itself. On Linux adjacent mappings can always be merged.
static bool merge_extents(
    extent_hooks_t *self, void *first, size_t first_size, void *second, size_t second_size, bool is_committed, unsigned arena
) {
    (void)self, (void)first, (void)first_size, (void)second, (void)second_size, (void)is_committed, (void)arena;
    return false;  // merged
}

// Only the first arena, that of the main thread, gets huge pages. The workers' arenas hold little, and there are many of them.
static void take_huge_pages(void) {
    if (mallctl == NULL) return;
    extent_hooks_t *now, *ours = &hooks;
    size_t size = sizeof now;
    if (mallctl("arena.0.extent_hooks", &now, &size, NULL, 0) != 0) return;
    usual_hooks = hooks = *now;
    hooks.alloc = allocate_extent;
    hooks.merge = merge_extents;
    mallctl("arena.0.extent_hooks", NULL, NULL, &ours, sizeof ours);
}
#else
static void take_huge_pages(void) {}
#endif

static void set_allocator(void) {
#ifdef __GLIBC__
    // Other threads may allocate meanwhile. They read each of these numbers atomically.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
    take_huge_pages();
}

void clua_prefer_speed_to_memory(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
}
