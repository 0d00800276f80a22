#define _GNU_SOURCE
#include <sched.h>

#include "CTestSupport.h"

bool use_one_processor(void) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
    CPU_ZERO(&one);
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
        if (!CPU_ISSET(processor, &all)) continue;
        CPU_SET(processor, &one);
        break;
    }
    return sched_setaffinity(0, sizeof one, &one) == 0;
}
