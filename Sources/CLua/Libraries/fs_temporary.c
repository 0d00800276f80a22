#define _GNU_SOURCE  // mkostemp
#include "Libraries/fs_temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "Libraries/fs_tree.h"

typedef struct temporary {
    struct temporary *next;
    const clua_state *state;
    pid_t process;  // a process that a script has forked leaves it alone
    char path[];
} temporary;

// All of the process, the newest first. Those that are left when the process exits are removed then.
static temporary *temporaries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t is_prepared = PTHREAD_ONCE_INIT;

// Takes the newest one of the state, or of any state for NULL, off the list.
static temporary *take_newest(const clua_state *state) {
    pthread_mutex_lock(&lock);
    temporary **link = &temporaries;
    while (*link != NULL && state != NULL && (*link)->state != state) link = &(*link)->next;
    temporary *newest = *link;
    if (newest != NULL) *link = newest->next;
    pthread_mutex_unlock(&lock);
    return newest;
}

// Removes the file or folder, if it is still there, and frees the record.
static void discard(temporary *taken) {
    tree *work = taken->process == getpid() ? calloc(1, sizeof *work) : NULL;
    char name[NAME_MAX + 1];
    int parent = work != NULL ? tree_open_parent(taken->path, name) : -1;
    if (parent >= 0) {
        work->is_own = true;
        tree_remove(work, parent, name);
        close(parent);
    }
    free(work);
    free(taken);
}

static void discard_all(void) {
    for (temporary *newest; (newest = take_newest(NULL)) != NULL;) discard(newest);
}

static void prepare(void) { atexit(discard_all); }

const char *clua_temporary_folder(void) {
    const char *folder = getenv("TMPDIR");
    return folder != NULL && *folder != '\0' ? folder : "/tmp";
}

const char *clua_make_temporary(clua_state *state, bool is_folder) {
    const char *folder = clua_temporary_folder();
    // A relative folder may mean another one later.
    char *absolute = *folder == '/' ? strdup(folder) : realpath(folder, NULL);
    if (absolute == NULL) return NULL;
    size_t size = strlen(absolute) + sizeof "/opscript-XXXXXX";
    temporary *made = calloc(1, sizeof *made + size);
    if (made != NULL) snprintf(made->path, size, "%s/opscript-XXXXXX", absolute);
    free(absolute);
    if (made == NULL) return NULL;
    int file = is_folder ? -1 : mkostemp(made->path, O_CLOEXEC);
    if (is_folder ? mkdtemp(made->path) == NULL : file < 0) {
        int error = errno;
        free(made);
        errno = error;
        return NULL;
    }
    if (file >= 0) close(file);
    pthread_once(&is_prepared, prepare);
    made->state = state;
    made->process = getpid();
    pthread_mutex_lock(&lock);
    made->next = temporaries;
    temporaries = made;
    pthread_mutex_unlock(&lock);
    state->temporary_count++;
    return made->path;
}

void clua_discard_temporaries(clua_state *state, uint32_t count) {
    for (; state->temporary_count > count; state->temporary_count--) {
        temporary *newest = take_newest(state);
        if (newest != NULL) discard(newest);
    }
}
