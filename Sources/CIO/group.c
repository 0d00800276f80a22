#include "group.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Reads the state and the group of a process. Returns false if the process has gone.
static bool read_process(int proc, const char *pid, char *state, int *group) {
    char path[32], text[512];
    if (snprintf(path, sizeof path, "%s/stat", pid) >= (int)sizeof path) return false;
    int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return false;
    text[count] = 0;
    // The name, in parentheses, may contain any character.
    const char *rest = strrchr(text, ')');
    return rest != NULL && sscanf(rest + 1, " %c %*d %d", state, group) == 2;
}

bool group_lives(pid_t group) {
    DIR *proc = opendir("/proc");
    if (proc == NULL) return true;
    bool lives = false, has_processes = false;
    for (struct dirent *entry; !lives && (entry = readdir(proc)) != NULL;) {
        char state;
        int its_group;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_process(dirfd(proc), entry->d_name, &state, &its_group)) continue;
        has_processes = true;
        lives = its_group == group && state != 'Z' && state != 'X';
    }
    closedir(proc);
    return lives || !has_processes;
}
