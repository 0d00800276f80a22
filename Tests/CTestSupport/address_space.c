#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "CTestSupport.h"

bool limit_address_space(size_t more) {
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return false;
    unsigned long pages;
    bool is_read = fscanf(file, "%lu", &pages) == 1;
    fclose(file);
    if (!is_read) return false;
    rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    return setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0;
}
