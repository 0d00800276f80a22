// Internal to this folder: the members of a process group.
#ifndef CIO_GROUP_H
#define CIO_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/// Whether the group has a member that has not ended. True if `/proc` shows no process. Takes some microseconds for each process of the system.
bool group_lives(pid_t group);

#endif
