// The word for the type of a file.
#ifndef CLUA_FS_TYPE_H
#define CLUA_FS_TYPE_H

#include <sys/stat.h>

static inline const char *fs_type(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "link";
    case S_IFIFO: return "fifo";
    case S_IFSOCK: return "socket";
    default: return "device";
    }
}

#endif
