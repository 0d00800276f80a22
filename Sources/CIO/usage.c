#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "CIO.h"

typedef struct entry {
    int process, parent, group;
    char state;
    bool counts;
    unsigned long long ticks;  // of itself, and of its children that have ended
} entry;

static bool read_entry(int proc, const char *name, entry *entry) {
    char path[32], text[1024];
    if (!isdigit((unsigned char)name[0]) || snprintf(path, sizeof path, "%s/stat", name) >= (int)sizeof path) return false;
    int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return false;
    text[count] = 0;
    // The name, in parentheses, may contain any character.
    const char *rest = strrchr(text, ')');
    unsigned long long own, system, children, childrens_system;
    if (rest == NULL || sscanf(rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &entry->state, &entry->parent,
                               &entry->group, &own, &system, &children, &childrens_system) != 7)
        return false;
    entry->process = atoi(name);
    entry->ticks = own + system + children + childrens_system;
    entry->counts = false;
    return true;
}

static bool contains(const int *numbers, size_t count, int number) {
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == number) return true;
    return false;
}

// Marks the members of the groups, and their descendants, which may have groups of their own.
static void mark(entry *entries, size_t count, const int *groups, size_t group_count) {
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (size_t i = 0; i < count; i++) {
            if (entries[i].counts) continue;
            bool counts = contains(groups, group_count, entries[i].group);
            for (size_t j = 0; j < count && !counts; j++) counts = entries[j].counts && entries[j].process == entries[i].parent;
            if (counts) entries[i].counts = has_changed = true;
        }
    }
}

bool cio_groups_usage(const int *groups, size_t group_count, cio_usage *usage) {
    *usage = (cio_usage){.time = 0};
    DIR *proc = opendir("/proc");
    if (proc == NULL) return false;
    entry *entries = NULL;
    size_t count = 0, capacity = 0;
    bool has_memory = true;
    for (struct dirent *found; has_memory && (found = readdir(proc)) != NULL;) {
        if (count == capacity) {
            capacity = capacity == 0 ? 256 : 2 * capacity;
            entry *grown = realloc(entries, capacity * sizeof *entries);
            if (grown == NULL) {
                has_memory = false;
                break;
            }
            entries = grown;
        }
        if (read_entry(dirfd(proc), found->d_name, &entries[count])) count++;
    }
    closedir(proc);
    if (has_memory) mark(entries, count, groups, group_count);
    unsigned long long ticks = 0;
    for (size_t i = 0; i < count && has_memory; i++) {
        if (!entries[i].counts) continue;
        ticks += entries[i].ticks;
        if (entries[i].state == 'R') usage->is_running = true;
    }
    free(entries);
    usage->time = ticks * (1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
    return has_memory && count > 0;
}
