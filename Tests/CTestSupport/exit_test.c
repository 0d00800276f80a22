#include <stdlib.h>
#include <unistd.h>

// The process of an exit test occupies a thread of Swift's pool in the parent process for as long as it lives. Two that never end would
// block all tests without a trace, so each gets a limited life. The testing library sets this variable in the child process.
__attribute__((constructor)) static void limit_life(void) {
    if (getenv("SWT_EXIT_TEST_ID") != NULL) alarm(300);
}
