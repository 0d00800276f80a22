#include <stdlib.h>
#include <unistd.h>

// As long as the process of an exit test lives, it occupies a thread of Swift's pool in the process that waits for it. Two that do not end
// would stop all tests, and nobody could say where. The testing library gives this variable to such a process.
__attribute__((constructor)) static void limit_life(void) {
    if (getenv("SWT_EXIT_TEST_ID") != NULL) alarm(300);
}
