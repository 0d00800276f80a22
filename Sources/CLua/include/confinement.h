// The calls that the kernel refuses to a worker process. See docs/untrusted-scripts.md.
#ifndef CLUA_CONFINEMENT_H
#define CLUA_CONFINEMENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct clua_confinement {
    bool allows_programs;     // other programs, and native code of C modules; then no system call is filtered
    bool allows_files;        // opening and changing files
    bool allows_privileges;   // programs that run as other users
    size_t more_bytes;        // of address space that the process may still take; 0 for no limit
} clua_confinement;

/// Confines the calling process for the rest of its life: all of its threads. Returns 0, or an error number. Never raises.
int clua_confine(const clua_confinement *confinement);

/// Limits the processor time of the process to `seconds` more than it has used; 0 for no limit. The kernel then ends it.
void clua_limit_processor_time(unsigned seconds);

#endif
