// Why: Swift's Glibc has no malloc.h.
#ifndef CMEASURING_H
#define CMEASURING_H

#include <malloc.h>

// How many bytes are allocated now, what the allocator adds to each block included.
static inline double cmeasuring_allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd);
}

#endif
