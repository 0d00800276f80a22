#define _GNU_SOURCE  // mkostemp, O_TMPFILE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "CNats.h"

int cnats_open_nameless(const char *folder) {
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)) return file;
    // Some file systems, such as NFS, have no files without names.
    char *path = NULL;
    if (asprintf(&path, "%s/opscript-blob-XXXXXX", folder) < 0) return -1;
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0) unlink(path);
    free(path);
    return file;
}
