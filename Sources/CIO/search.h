// Internal to this folder: finding a program.
#ifndef CIO_SEARCH_H
#define CIO_SEARCH_H

#include <limits.h>

#include "CIO.h"

/// The path to start, for a function that searches in this process's PATH: the program's name, unless the program has a PATH of its own. That one
/// decides then, with relative folders from `directory`, a descriptor or -1. Returns NULL, with errno, if no folder has the program.
const char *find_program(const cio_program *program, int directory, char path[PATH_MAX]);

#endif
