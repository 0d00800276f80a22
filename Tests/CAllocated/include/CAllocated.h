// What malloc has handed out. A C target because Swift's Glibc module leaves <malloc.h> out.
#ifndef CALLOCATED_H
#define CALLOCATED_H

#include <stddef.h>

/// Bytes in use by everything that is malloc'ed in this process. 0 under sanitizers that replace malloc.
size_t allocated_bytes(void);

#endif
