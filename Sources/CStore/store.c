#define _GNU_SOURCE
#include "CStore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

void cstore_ask(int directory, const char *path, uint64_t boot, cstore_status *status) {
    struct stat found;
    *status = (cstore_status){ .kind = CSTORE_ABSENT };
    if (fstatat(directory, path, &found, 0) != 0) return;
    status->kind = S_ISREG(found.st_mode) ? CSTORE_FILE : S_ISDIR(found.st_mode) ? CSTORE_FOLDER : CSTORE_OTHER;
    status->size = (uint64_t)found.st_size;
    status->inode = found.st_ino;
    status->links = found.st_nlink;
    int64_t modified = nanoseconds(found.st_mtim), changed = nanoseconds(found.st_ctim);
    status->modified = modified;
    status->changed = modified > changed ? modified : changed;
    uint64_t fields[] = { status->size, found.st_ino, (uint64_t)modified, (uint64_t)changed, boot, (uint64_t)status->kind };
    status->signature = XXH3_128bits(fields, sizeof fields);
}

bool cstore_hasher_add(cstore_hasher *hasher, const void *bytes, size_t count) {
    if (hasher->state == NULL && count <= sizeof hasher->few - hasher->count) {
        if (count > 0) memcpy(hasher->few + hasher->count, bytes, count);
        hasher->count += count;
        return true;
    }
    if (hasher->state == NULL) {
        hasher->state = XXH3_createState();
        if (hasher->state == NULL) return false;
        XXH3_128bits_reset(hasher->state);
        XXH3_128bits_update(hasher->state, hasher->few, hasher->count);
    }
    XXH3_128bits_update(hasher->state, bytes, count);
    return true;
}

XXH128_hash_t cstore_hasher_digest(const cstore_hasher *hasher) {
    return hasher->state != NULL ? XXH3_128bits_digest(hasher->state) : XXH3_128bits(hasher->few, hasher->count);
}

void cstore_hasher_free(cstore_hasher *hasher) { XXH3_freeState(hasher->state); }

int64_t cstore_file_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return nanoseconds(now);
}

void cstore_wait_for_tick(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t end = nanoseconds(now);
    // Half of the shortest tick. If the clock is set back, the wait ends nevertheless.
    const struct timespec pause = { .tv_nsec = 500000 };
    for (int i = 0; i < 100 && cstore_file_clock() <= end; i++) nanosleep(&pause, NULL);
}

static int lock_byte(int file, int command, short type, int64_t offset) {
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };
    int result;
    do {
        result = fcntl(file, command, &lock);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int cstore_lock_byte(int file, int64_t offset) { return lock_byte(file, F_OFD_SETLKW, F_WRLCK, offset); }

int cstore_try_lock_byte(int file, int64_t offset) { return lock_byte(file, F_OFD_SETLK, F_WRLCK, offset); }

int cstore_unlock_byte(int file, int64_t offset) { return lock_byte(file, F_OFD_SETLK, F_UNLCK, offset); }
