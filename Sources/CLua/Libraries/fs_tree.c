#define _GNU_SOURCE  // O_PATH, copy_file_range, renameat2
#include "Libraries/fs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"

bool tree_is_stopped(const clua_state *state) {
    if (state == NULL) return false;
    bool is_asked = atomic_load(&state->stop.requested) != 0 && atomic_load(&state->stop.raised) == 0;
    return is_asked || clua_interrupt_is_pending(state);
}

int tree_open_parent(const char *path, char name[NAME_MAX + 1]) {
    size_t count = strlen(path), end = count;
    while (end > 0 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    char parent[PATH_MAX];
    errno = count == 0 ? ENOENT : end == 0 ? EBUSY : end - start > NAME_MAX || start >= sizeof parent ? ENAMETOOLONG : 0;
    if (errno != 0) return -1;
    memcpy(name, path + start, end - start);
    name[end - start] = '\0';
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    memcpy(parent, path, start);
    parent[start] = '\0';
    return open(start == 0 ? "." : parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void tree_new_name(char name[NAME_MAX + 1]) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = (uint64_t)getpid() << 32 | (uint32_t)(uintptr_t)name;
    snprintf(name, NAME_MAX + 1, ".opscript-%016llx", (unsigned long long)number);
}

// Puts a name before the place of an error, and returns the error.
static int fail(tree *work, const char *name, int error) {
    size_t count = strlen(name), rest = strlen(work->place);
    if (error <= 0 || count + rest + 2 > sizeof work->place) return error;
    memmove(work->place + count + 1, work->place, rest + 1);
    memcpy(work->place, name, count);
    work->place[count] = rest > 0 ? '/' : '\0';
    return error;
}

// Calls `visit` for each entry of a folder, and closes the folder. Stops at the first error.
static int for_each(tree *work, DIR *list, int (*visit)(tree *work, int folder, const char *name, void *context), void *context) {
    enum { ENTRIES_PER_LOOK = 64 };
    int error = 0;
    while (error == 0) {
        errno = 0;
        const struct dirent *entry = readdir(list);
        if (entry == NULL) return errno;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (++work->entries % ENTRIES_PER_LOOK == 0 && tree_is_stopped(work->state)) return TREE_STOPPED;
        error = fail(work, name, visit(work, dirfd(list), name, context));
    }
    return error;
}

// MARK: removing

// Folders deeper than this are moved up, because each level has a descriptor.
enum { MOST_LEVELS = 100, MOST_ATTEMPTS = 16 };

static int remove_entry(tree *work, int parent, const char *name, int level);

static int visit_removed(tree *work, int folder, const char *name, void *level) {
    int error = remove_entry(work, folder, name, *(int *)level + 1);
    return error == ENOENT || work->is_own ? 0 : error;  // another thread has removed it
}

// Removes the contents of a folder, and the folder itself. Closes the folder.
static int remove_folder(tree *work, int parent, const char *name, int folder, int level) {
    DIR *list = fdopendir(folder);
    if (list == NULL) {
        int error = errno;
        close(folder);
        return error;
    }
    if (level == 0) work->outermost = folder;
    if (work->is_own) fchmod(folder, 0700);  // without the right to write, nothing can be removed from it
    int error = 0;
    for (int attempts = 0; attempts < MOST_ATTEMPTS && error == 0;) {
        // Another thread may add entries, and removing some may hide others from the list.
        unsigned moved = work->moved;
        rewinddir(list);
        error = for_each(work, list, visit_removed, &level);
        if (error != 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0) break;
        if (moved == work->moved || level > 0) attempts++;
        if (attempts == MOST_ATTEMPTS || (errno != ENOTEMPTY && errno != EEXIST)) error = errno;
    }
    closedir(list);
    return error;
}

static int remove_entry(tree *work, int parent, const char *name, int level) {
    for (int attempts = 0;; attempts++) {
        if (unlinkat(parent, name, 0) == 0) return 0;
        int error = errno;
        if (error != EISDIR && error != EPERM) return error;
        if (level == MOST_LEVELS) {
            char moved[NAME_MAX + 1];
            tree_new_name(moved);
            if (renameat(parent, name, work->outermost, moved) != 0) return errno;
            work->moved++;
            return 0;
        }
        int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder >= 0) return remove_folder(work, parent, name, folder, level);
        // Something else is in the folder's place now.
        if ((errno != ENOTDIR && errno != ELOOP) || attempts == MOST_ATTEMPTS) return errno == ENOTDIR ? error : errno;
    }
}

int tree_remove(tree *work, int parent, const char *name) { return remove_entry(work, parent, name, 0); }

// MARK: copying

int tree_write(const clua_state *state, int file, const char *bytes, size_t count) {
    while (count > 0) {
        if (tree_is_stopped(state)) return TREE_STOPPED;
        enum { MOST = 1 << 24 };
        ssize_t written = write(file, bytes, count < MOST ? count : MOST);
        if (written < 0 && errno != EINTR) return errno;
        if (written <= 0) continue;
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

// Copies the rest of a file through this process: some file systems cannot do it themselves.
static int copy_bytes(tree *work, int from, int to) {
    char bytes[1 << 16];
    for (;;) {
        ssize_t count = read(from, bytes, sizeof bytes);
        if (count == 0) return 0;
        if (count < 0 && errno != EINTR) return errno;
        int error = tree_write(work->state, to, bytes, count > 0 ? (size_t)count : 0);
        if (error != 0) return error;
    }
}

static int copy_contents(tree *work, int from, int to) {
    if (ioctl(to, FICLONE, from) == 0) return 0;
    enum { MOST = 1 << 26 };
    for (bool has_begun = false;; has_begun = true) {
        if (tree_is_stopped(work->state)) return TREE_STOPPED;
        ssize_t count = copy_file_range(from, NULL, to, NULL, MOST, 0);
        if (count < 0 && errno == EINTR) continue;
        // Files of /proc seem to be empty.
        if (count < 0 || (count == 0 && !has_begun)) return has_begun ? errno : copy_bytes(work, from, to);
        if (count == 0) return 0;
    }
}

// Gives the open file the mode and the times.
static int keep_properties(int file, const struct stat *about) {
    struct timespec times[] = {about->st_atim, about->st_mtim};
    if (fchmod(file, about->st_mode & 0777) != 0 || futimens(file, times) != 0) return errno;
    return 0;
}

// The present error of a system call about the copy.
static int fail_at_target(tree *work) {
    work->is_at_target = true;
    return errno;
}

static int copy_file(tree *work, int from_folder, const char *from, int to_folder, const char *to, int flags) {
    int source = openat(from_folder, from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (source < 0) return errno;
    struct stat about;
    int target = -1, error = fstat(source, &about) != 0 ? errno : !S_ISREG(about.st_mode) ? EINVAL : 0;
    if (error == 0) {
        target = openat(to_folder, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        error = target < 0 ? fail_at_target(work) : copy_contents(work, source, target);
    }
    if (error == 0) error = keep_properties(target, &about);
    close(source);
    if (target >= 0 && close(target) != 0 && error == 0) error = errno;
    return error;
}

// Where the entries of a folder go. `root` is the outermost new folder.
typedef struct destination {
    int folder;
    struct stat root;
} destination;

static int copy_entry(tree *work, int from_folder, const char *from, destination *to, const char *name, bool is_outermost);

static int visit_copied(tree *work, int folder, const char *name, void *to) { return copy_entry(work, folder, name, to, name, false); }

static int copy_folder(tree *work, int from_folder, const char *from, destination *to, const char *name, bool is_outermost) {
    int source = openat(from_folder, from, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_outermost ? 0 : O_NOFOLLOW));
    DIR *list = source < 0 ? NULL : fdopendir(source);
    struct stat about;
    int error = list == NULL || fstat(source, &about) != 0 ? errno : 0;
    if (list == NULL && source >= 0) close(source);
    if (error == 0 && !is_outermost && about.st_dev == to->root.st_dev && about.st_ino == to->root.st_ino) error = TREE_IN_ITSELF;
    if (error == 0 && mkdirat(to->folder, name, 0700) != 0) error = fail_at_target(work);
    destination inner = {.folder = -1, .root = to->root};
    if (error == 0) {
        inner.folder = openat(to->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner.folder < 0 || (is_outermost && fstat(inner.folder, &inner.root) != 0)) error = errno;
    }
    if (error == 0) error = for_each(work, list, visit_copied, &inner);
    if (error == 0) error = keep_properties(inner.folder, &about);
    if (inner.folder >= 0) close(inner.folder);
    if (list != NULL) closedir(list);
    return error;
}

static int copy_link(int from_folder, const char *from, int to_folder, const char *to) {
    char target[PATH_MAX];
    ssize_t count = readlinkat(from_folder, from, target, sizeof target - 1);
    if (count < 0) return -1;
    target[count] = '\0';
    return symlinkat(target, to_folder, to);
}

static int copy_fifo(int to_folder, const char *to, mode_t mode) {
    return mkfifoat(to_folder, to, mode) == 0 ? fchmodat(to_folder, to, mode, 0) : -1;
}

static int copy_entry(tree *work, int from_folder, const char *from, destination *to, const char *name, bool is_outermost) {
    struct stat about;
    if (fstatat(from_folder, from, &about, is_outermost && !work->keeps_link ? 0 : AT_SYMLINK_NOFOLLOW) != 0) return errno;
    switch (about.st_mode & S_IFMT) {
    case S_IFREG: return copy_file(work, from_folder, from, to->folder, name, is_outermost ? 0 : O_NOFOLLOW);
    case S_IFDIR: return copy_folder(work, from_folder, from, to, name, is_outermost);
    case S_IFLNK:
    case S_IFIFO: break;
    default: return EOPNOTSUPP;
    }
    bool is_made = (S_ISLNK(about.st_mode) ? copy_link(from_folder, from, to->folder, name) : copy_fifo(to->folder, name, about.st_mode & 0777)) == 0;
    struct timespec times[] = {about.st_atim, about.st_mtim};
    return is_made && utimensat(to->folder, name, times, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : fail_at_target(work);
}

int tree_copy(tree *work, int from_folder, const char *from, int to_folder, const char *to) {
    destination destination = {.folder = to_folder};
    return copy_entry(work, from_folder, from, &destination, to, true);
}
