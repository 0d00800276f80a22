#define _GNU_SOURCE
#include "CTestSupport.h"

#include <malloc.h>

size_t allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

size_t block_bytes(const void *block) { return malloc_usable_size((void *)block); }
