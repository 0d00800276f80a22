// The store's libraries, and the few calls of the system that Swift cannot make.
#ifndef CSTORE_H
#define CSTORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>
#include <zstd.h>

/// Computes an XXH3 digest of 128 bits of bytes in pieces. If the bytes are few, as usual, the hasher collects them and digests them at the
/// end, without the half kilobyte of state that many need. All zero: no bytes so far.
typedef struct cstore_hasher {
    XXH3_state_t *state;  // NULL while all bytes are in `few`
    size_t count;         // how many are in `few`
    uint8_t few[496];
} cstore_hasher;

/// Returns false if memory runs out.
bool cstore_hasher_add(cstore_hasher *hasher, const void *bytes, size_t count);

/// The digest of all bytes so far. More may be added afterwards.
XXH128_hash_t cstore_hasher_digest(const cstore_hasher *hasher);

void cstore_hasher_free(cstore_hasher *hasher);

typedef enum cstore_kind { CSTORE_ABSENT, CSTORE_FILE, CSTORE_FOLDER, CSTORE_OTHER } cstore_kind;

/// The system's facts about a path, without reading it.
typedef struct cstore_status {
    cstore_kind kind;
    uint64_t size;
    uint64_t inode;
    uint64_t links;    // how many names the file has
    int64_t modified;  // mtime, in nanoseconds since 1970
    int64_t changed;   // the later of mtime and ctime, likewise
    XXH128_hash_t signature; // of kind, size, inode, mtime, ctime and `boot`
} cstore_status;

/// Asks the system about `path`, relative to the folder `directory`. Links are followed. After an error, the path counts as absent.
void cstore_ask(int directory, const char *path, uint64_t boot, cstore_status *status);

/// The clock that files get their times from, in nanoseconds since 1970.
int64_t cstore_file_clock(void);

/// Waits until `cstore_file_clock` is later than all writes before the call: some milliseconds.
void cstore_wait_for_tick(void);

/// Locks a byte of a file for its open file description, and waits while another one has it. Returns an errno or 0.
int cstore_lock_byte(int file, int64_t offset);
/// The same without waiting: EAGAIN while another one has it.
int cstore_try_lock_byte(int file, int64_t offset);
int cstore_unlock_byte(int file, int64_t offset);

#endif
