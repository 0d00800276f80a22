#define _XOPEN_SOURCE 700  // nftw
#include <ftw.h>
#include <stdio.h>

#include "CIO.h"

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *position) {
    (void)status;
    (void)kind;
    (void)position;
    remove(path);
    return 0;
}

// Removes the contents of a folder before the folder, and follows no links. nftw keeps 16 folders open; trees that are deeper take longer.
void cio_remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
