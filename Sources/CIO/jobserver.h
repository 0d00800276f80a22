// Internal to this folder: the descriptors of a jobserver that a program gets.
#ifndef CIO_JOBSERVER_H
#define CIO_JOBSERVER_H

#include <spawn.h>

#include "CIO.h"
#include "spawn.h"

enum { JOBSERVER_DESCRIPTOR = CIO_JOBSERVER_DESCRIPTOR };

/// Makes a program have the ends of the pipe. Returns 0 or an errno.
int jobserver_pass_on(const cio_jobserver *jobserver, posix_spawn_file_actions_t *actions);

/// The first descriptor that a program with this jobserver must not have. The jobserver may be NULL.
int jobserver_first_closed(const cio_jobserver *jobserver);

#endif
