#include "groups.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 256, DEPTH = 64 };

// Blocks are never freed, because a signal handler may be reading them.
typedef struct block {
    group groups[BLOCK];
    struct block *_Atomic next;
} block;

static block first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned last_mark;                // guarded
static char variable[MARK_SIZE];          // the name, and the part of the value that names this process
static pid_t host;                        // this process; another one in a copy that a script has forked
static unsigned long long start_of_host;  // in the unit of /proc: no process of a program is older

// MARK: the list

static const group *next_group(const block **block, size_t *index) {
    while (*block != NULL) {
        if (*index < BLOCK) return &(*block)->groups[(*index)++];
        *block = (*block)->next;
        *index = 0;
    }
    return NULL;
}

static const group *find(unsigned mark, pid_t leader) {
    size_t index = 0;
    const block *block = &first;
    for (const group *group; (group = next_group(&block, &index)) != NULL;)
        if (group->mark != 0 && (mark != 0 ? group->mark == mark : leader > 0 && group->leader == leader)) return group;
    return NULL;
}

// The list must be locked. Returns NULL without memory.
static group *free_group(void) {
    for (block *block = &first;; block = block->next) {
        for (size_t i = 0; i < BLOCK; i++)
            if (block->groups[i].mark == 0) return &block->groups[i];
        if (block->next == NULL) block->next = calloc(1, sizeof *block);
        if (block->next == NULL) return NULL;
    }
}

// MARK: processes

typedef struct process {
    pid_t parent, group;
    char state;
    unsigned long long start;
} process;

// Opens a file of a process, without functions that a signal handler may not call.
static int open_file(int proc, pid_t pid, const char *name) {
    char path[32] = {0}, *next = path + 16;
    for (pid_t left = pid; left > 0; left /= 10) *--next = (char)('0' + left % 10);
    path[16] = '/';
    strcpy(path + 17, name);
    return openat(proc, next, O_RDONLY | O_CLOEXEC);
}

// Returns false if the process has gone.
static bool read_process(int proc, pid_t pid, process *process) {
    enum { PARENT = 4, GROUP = 5, START = 22 };  // the numbers of the fields
    char text[1024];
    int file = open_file(proc, pid, "stat");
    if (file < 0) return false;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0) return false;
    text[count] = 0;
    // The name, in parentheses, may contain any character.
    char *next = strrchr(text, ')');
    if (next == NULL || next[1] == 0) return false;
    process->state = next[2];
    next += 3;
    for (int i = PARENT; i <= START; i++) {
        unsigned long long field = strtoull(next, &next, 10);
        if (i == PARENT) process->parent = (pid_t)field;
        if (i == GROUP) process->group = (pid_t)field;
        if (i == START) process->start = field;
    }
    return true;
}

// The mark in the environment of a process; 0 if it has none, or if the environment cannot be read.
static unsigned read_mark(int proc, pid_t pid) {
    char text[4096 + 1];
    size_t kept = 0, name = strlen(variable);
    unsigned mark = 0;
    int file = open_file(proc, pid, "environ");
    if (file < 0) return 0;
    for (;;) {
        ssize_t count = read(file, text + kept, sizeof text - 1 - kept);
        size_t all = kept + (count > 0 ? (size_t)count : 0);
        text[all] = 0;
        const char *found = memmem(text, all, variable, name);
        bool is_whole = found != NULL && (count <= 0 || (size_t)(text + all - found) >= MARK_SIZE);
        if (is_whole) mark = (unsigned)strtoul(found + name, NULL, 10);
        if (is_whole || count <= 0) break;
        // The variable may continue in the next part.
        kept = all < MARK_SIZE ? all : MARK_SIZE;
        memmove(text, text + all - kept, kept);
    }
    close(file);
    return mark;
}

// The program that a process belongs to, by its group, its environment or its parents.
static const group *owner(int proc, pid_t pid, process process) {
    for (int depth = 0; depth < DEPTH && pid > 1 && pid != host && process.start >= start_of_host; depth++) {
        const group *found = find(0, process.group);
        unsigned mark = found == NULL ? read_mark(proc, pid) : 0;
        if (mark != 0) found = find(mark, 0);
        if (found != NULL || mark != 0) return found;
        pid = process.parent;
        if (!read_process(proc, pid, &process)) break;
    }
    return NULL;
}

static void visit_process(int proc, pid_t pid, group_visitor *visit, void *context) {
    process process;
    if (!read_process(proc, pid, &process) || process.state == 'Z' || process.state == 'X') return;
    const group *group = owner(proc, pid, process);
    if (group != NULL) visit(group, pid, process.group != group->leader, context);
}

bool groups_visit(group_visitor *visit, void *context) {
    // readdir may allocate memory, which a signal handler must not do.
    _Alignas(struct dirent64) char entries[4096];
    int proc = getpid() == host ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (proc < 0) return false;
    bool has_processes = false;
    for (long count; (count = syscall(SYS_getdents64, proc, entries, sizeof entries)) > 0;) {
        for (long at = 0; at < count;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            at += entry->d_reclen;
            if (!isdigit((unsigned char)entry->d_name[0])) continue;
            has_processes = true;
            visit_process(proc, (pid_t)strtol(entry->d_name, NULL, 10), visit, context);
        }
    }
    close(proc);
    return has_processes;
}

bool groups_have(pid_t pid) {
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    process process;
    bool have = proc >= 0 && read_process(proc, pid, &process) && owner(proc, pid, process) != NULL;
    if (proc >= 0) close(proc);
    return have;
}

bool process_ignores(pid_t pid, int signal_number) {
    char text[4096];
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int file = proc < 0 ? -1 : open_file(proc, pid, "status");
    ssize_t count = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (proc >= 0) close(proc);
    text[count > 0 ? count : 0] = 0;
    static const char name[] = "\nSigIgn:";
    const char *found = strstr(text, name);
    return found != NULL && (strtoull(found + sizeof name - 1, NULL, 16) >> (signal_number - 1) & 1) != 0;
}

// MARK: groups

// The time makes the value unique among the processes that have had this number.
static void describe_host(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long nanoseconds = (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
    snprintf(variable, sizeof variable, "OPSCRIPT_PROGRAM=%d-%llx.", getpid(), nanoseconds);
    host = getpid();
    process process;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc >= 0 && read_process(proc, host, &process)) start_of_host = process.start;
    if (proc >= 0) close(proc);
}

group *group_reserve(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_host);
    pthread_mutex_lock(&lock);
    group *group = free_group();
    if (group != NULL) {
        group->leader = 0;
        last_mark = last_mark == UINT32_MAX ? 1 : last_mark + 1;
        group->mark = last_mark;
    }
    pthread_mutex_unlock(&lock);
    return group;
}

void group_release(group *group) {
    if (group != NULL) group->mark = 0;
}

char *group_variable(const group *group, char text[MARK_SIZE]) {
    snprintf(text, MARK_SIZE, "%s%u", variable, group->mark);
    return text;
}

void groups_signal(int signal_number) {
    int error = errno;
    size_t index = 0;
    const block *block = getpid() == host ? &first : NULL;
    for (const group *group; (group = next_group(&block, &index)) != NULL;)
        if (group->mark != 0 && group->leader > 0) kill(-group->leader, signal_number);
    errno = error;
}
