#define _GNU_SOURCE
#include "CFaults.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic fault planned;
static atomic_long changes, planned_change;
static atomic_int planned_code;

/// A file for SQLite, with the real file behind it.
typedef struct layer {
    sqlite3_file file;
    sqlite3_file *real;
} layer;

static sqlite3_file *real(sqlite3_file *file) { return ((layer *)file)->real; }

/// Counts a change. Returns what becomes of it.
static fault next_change(void) {
    long number = atomic_fetch_add(&changes, 1);
    fault kind = atomic_load(&planned);
    if (kind == FAULT_NONE || number < atomic_load(&planned_change)) return FAULT_NONE;
    return kind;
}

static int fail(fault kind, int code) {
    if (kind == FAULT_KILL) {
        kill(getpid(), SIGKILL);
        pause();
    }
    return kind == FAULT_FULL ? SQLITE_FULL : kind == FAULT_CODE ? atomic_load(&planned_code) : code;
}

static int layer_close(sqlite3_file *file) { return real(file)->pMethods ? real(file)->pMethods->xClose(real(file)) : SQLITE_OK; }

static int layer_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    return real(file)->pMethods->xRead(real(file), bytes, count, offset);
}

static int layer_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    fault kind = next_change();
    if (kind == FAULT_NONE) return real(file)->pMethods->xWrite(real(file), bytes, count, offset);
    if (count > 1 && kind != FAULT_CODE) real(file)->pMethods->xWrite(real(file), bytes, count / 2, offset);
    return fail(kind, SQLITE_IOERR_WRITE);
}

static int layer_truncate(sqlite3_file *file, sqlite3_int64 size) {
    fault kind = next_change();
    return kind == FAULT_NONE ? real(file)->pMethods->xTruncate(real(file), size) : fail(kind, SQLITE_IOERR_TRUNCATE);
}

static int layer_sync(sqlite3_file *file, int flags) {
    fault kind = next_change();
    return kind == FAULT_NONE ? real(file)->pMethods->xSync(real(file), flags) : fail(kind, SQLITE_IOERR_FSYNC);
}

static int layer_size(sqlite3_file *file, sqlite3_int64 *size) { return real(file)->pMethods->xFileSize(real(file), size); }
static int layer_lock(sqlite3_file *file, int lock) { return real(file)->pMethods->xLock(real(file), lock); }
static int layer_unlock(sqlite3_file *file, int lock) { return real(file)->pMethods->xUnlock(real(file), lock); }

static int layer_check_lock(sqlite3_file *file, int *result) {
    return real(file)->pMethods->xCheckReservedLock(real(file), result);
}

static int layer_control(sqlite3_file *file, int operation, void *argument) {
    return real(file)->pMethods->xFileControl(real(file), operation, argument);
}

static int layer_sector(sqlite3_file *file) { return real(file)->pMethods->xSectorSize(real(file)); }
static int layer_characteristics(sqlite3_file *file) { return real(file)->pMethods->xDeviceCharacteristics(real(file)); }

static int layer_map(sqlite3_file *file, int page, int size, int extend, void volatile **address) {
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, address);
}

static int layer_shared_lock(sqlite3_file *file, int offset, int count, int flags) {
    return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}

static void layer_barrier(sqlite3_file *file) { real(file)->pMethods->xShmBarrier(real(file)); }
static int layer_unmap(sqlite3_file *file, int delete) { return real(file)->pMethods->xShmUnmap(real(file), delete); }

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = layer_close,
    .xRead = layer_read,
    .xWrite = layer_write,
    .xTruncate = layer_truncate,
    .xSync = layer_sync,
    .xFileSize = layer_size,
    .xLock = layer_lock,
    .xUnlock = layer_unlock,
    .xCheckReservedLock = layer_check_lock,
    .xFileControl = layer_control,
    .xSectorSize = layer_sector,
    .xDeviceCharacteristics = layer_characteristics,
    .xShmMap = layer_map,
    .xShmLock = layer_shared_lock,
    .xShmBarrier = layer_barrier,
    .xShmUnmap = layer_unmap,
};

static sqlite3_vfs vfs;
static sqlite3_vfs *system_vfs;

static int open_layer(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *actual) {
    (void)self;
    layer *made = (layer *)file;
    made->real = (sqlite3_file *)(made + 1);
    memset(made->real, 0, (size_t)system_vfs->szOsFile);
    int code = system_vfs->xOpen(system_vfs, name, made->real, flags, actual);
    made->file.pMethods = made->real->pMethods ? &methods : NULL;
    return code;
}

static int delete_file(sqlite3_vfs *self, const char *name, int synchronize) {
    (void)self;
    fault kind = next_change();
    return kind == FAULT_NONE ? system_vfs->xDelete(system_vfs, name, synchronize) : fail(kind, SQLITE_IOERR_DELETE);
}

void faults_install(void) {
    if (system_vfs) return;
    system_vfs = sqlite3_vfs_find(NULL);
    // Its other functions do not look at what they are called for.
    vfs = *system_vfs;
    vfs.zName = "faults";
    vfs.szOsFile = (int)sizeof(layer) + system_vfs->szOsFile;
    vfs.pNext = NULL;
    vfs.xOpen = open_layer;
    vfs.xDelete = delete_file;
    sqlite3_vfs_register(&vfs, 1);
}

void faults_plan(fault kind, long number) {
    atomic_store(&planned, FAULT_NONE);
    atomic_store(&changes, 0);
    atomic_store(&planned_change, number);
    atomic_store(&planned, kind);
}

void faults_plan_code(int code, long number) {
    atomic_store(&planned_code, code);
    faults_plan(FAULT_CODE, number);
}

long faults_changes(void) { return atomic_load(&changes); }
