#ifndef CMEASURING_H
#define CMEASURING_H

#include <malloc.h>
#include <stdint.h>

// Why: Swift's Glibc has no malloc.h.
// How many bytes are allocated now, what the allocator adds to each block included.
static inline double cmeasuring_allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd);
}

// Why: the macros for sets of processors, and atomic changes that no compiler moves.
// How long a line of memory takes from the first processor that the process may use to the second and back, in nanoseconds; 0 when there is
// only one. Some milliseconds.
double cmeasuring_round_trip(void);

// Why: in C, no compiler of a caller sees that it has no effect.
// Work of about 0.12 µs.
uint64_t cmeasuring_compute_briefly(void);

#endif
