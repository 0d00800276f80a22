#ifndef CMEASURING_H
#define CMEASURING_H

#include <malloc.h>
#include <stdint.h>

// Why C: Swift's Glibc module has no malloc.h.
// The number of allocated bytes, including the allocator's overhead for each block.
static inline double cmeasuring_allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd);
}

// Why C: Swift cannot call the macros for processor sets, and the compiler must not move the atomic operations.
// The round-trip time of a cache line between the first two processors that the process may use, in nanoseconds. Returns 0 when there is
// only one. Takes some milliseconds.
double cmeasuring_round_trip(void);

// Why C: the compiler of a caller cannot see that the function has no effect.
// Computes for about 0.12 µs.
uint64_t cmeasuring_compute_briefly(void);

#endif
