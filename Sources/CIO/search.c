#include "search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The PATH that the program will have, if the environment changes it; otherwise NULL.
static const char *own_path(const char *const *changes) {
    const char *path = NULL;
    for (; *changes != NULL; changes++) {
        if (strncmp(*changes, "PATH=", 5) == 0) path = *changes + 5;
        if (strcmp(*changes, "PATH") == 0) path = "/bin:/usr/bin";  // as execvp does without the variable
    }
    return path;
}

const char *find_program(const cio_program *program, int directory, char path[PATH_MAX]) {
    const char *name = program->arguments[0], *folders = own_path(program->environment);
    if (folders == NULL || strchr(name, '/') != NULL) return name;
    int error = ENOENT, from = directory >= 0 ? directory : AT_FDCWD;
    for (;; folders++) {
        // An empty folder is the working directory.
        int count = (int)strcspn(folders, ":");
        bool fits = snprintf(path, PATH_MAX, "%.*s/%s", count > 0 ? count : 1, count > 0 ? folders : ".", name) < PATH_MAX;
        struct stat about;
        if (fits && fstatat(from, path, &about, 0) == 0 && S_ISREG(about.st_mode)) {
            if (faccessat(from, path, X_OK, AT_EACCESS) == 0) return path;
            error = errno;
        }
        folders += count;
        if (*folders == 0) break;
    }
    errno = error;
    return NULL;
}
