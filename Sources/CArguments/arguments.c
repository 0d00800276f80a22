#include "CArguments.h"

// At each start, the Swift runtime looks for the stack in /proc/self/maps, to find the words there. This takes 120,000 instructions and
// seven system calls, 3 % of the time of an empty script. The C library passes the words to each constructor. The linker finds these functions
// before those of the same names in the runtime's archive. In a program with the shared runtime, the runtime's functions return the same.

static char **all;
static int number;

__attribute__((constructor)) static void keep_arguments(int count, char **words) {
    all = words;
    number = count;
}

char **_swift_stdlib_getUnsafeArgvArgc(int *count) {
    *count = number;
    return all;
}

void _swift_stdlib_overrideUnsafeArgvArgc(char **words, int count) { keep_arguments(count, words); }
