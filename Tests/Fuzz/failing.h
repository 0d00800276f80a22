// Included before all other headers. It lets a test make each allocation of Sources/CLua fail, including those of Lua.
#include <malloc.h>  // declares the functions that are replaced below, as do the next headers
#include <stdlib.h>
#include <string.h>
#include <jemalloc/jemalloc.h>

void *failing_realloc(void *block, size_t size);
void *failing_calloc(size_t count, size_t size);
char *failing_strdup(const char *text);

#define malloc(size) failing_realloc(NULL, size)
#define realloc failing_realloc
#define calloc failing_calloc
#define strdup failing_strdup
