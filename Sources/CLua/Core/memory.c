// Settings of the process's allocator, which belong to the application: it asks for them.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // madvise
#endif
#include <pthread.h>
#include <stdlib.h>

#include "state.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#if defined(__linux__) && __has_include(<jemalloc/jemalloc.h>)
#include <jemalloc/jemalloc.h>
#include <sys/mman.h>

// Null where the application has another allocator.
#pragma weak mallctl

enum { HUGE_PAGE_BYTES = 2 << 20 };

static extent_hooks_t usual_hooks, hooks;

// An arena takes 2 MiB at first, and then more each time. Who takes that much again is going to use it, and a huge page is one page fault
// instead of 512, and one entry of the processor's table.
static void *allocate_extent(
    extent_hooks_t *self, void *address, size_t size, size_t alignment, bool *is_zeroed, bool *is_committed, unsigned arena
) {
    (void)self;
    void *extent = usual_hooks.alloc(&usual_hooks, address, size, alignment, is_zeroed, is_committed, arena);
    if (extent != NULL && size >= HUGE_PAGE_BYTES) madvise(extent, size, MADV_HUGEPAGE);
    return extent;
}

// The first arena only, that of the thread that began: those of the workers hold little, and there are many.
static void take_huge_pages(void) {
    if (mallctl == NULL) return;
    extent_hooks_t *now, *ours = &hooks;
    size_t size = sizeof now;
    if (mallctl("arena.0.extent_hooks", &now, &size, NULL, 0) != 0) return;
    usual_hooks = hooks = *now;
    hooks.alloc = allocate_extent;
    mallctl("arena.0.extent_hooks", NULL, NULL, &ours, sizeof ours);
}
#else
static void take_huge_pages(void) {}
#endif

static void set_allocator(void) {
#ifdef __GLIBC__
    // Other threads may allocate meanwhile: they read each of the numbers in one piece.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
    take_huge_pages();
}

void clua_prefer_speed_to_memory(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
}
