// The analysis pass behind opscript.captures. An encoder runs as for a parcel that is then discarded. Values that cannot be sent are
// recorded rather than raised, and the bytes are counted per upvalue and global.
#ifndef CLUA_PARCEL_ANALYSIS_H
#define CLUA_PARCEL_ANALYSIS_H

#include "Transfer/encoder.h"

typedef struct analysis {
    int records;       // stack index of the array of records
    uint32_t current;  // the record whose bytes are being written; 0 for none
    size_t counted;    // bytes counted so far
    list sizes;        // size_t by record; the first is for bytes outside all records
    uint32_t count;    // the number of records
} analysis;

/// Starts the record of the value on top, which is written next. The root `step` leads to the value. May raise. Needs 12 stack slots.
void analysis_begin(encoder *e, path_step *step);

/// Called when the encoder continues on another path. May raise.
void analysis_follow(encoder *e);

/// Records that the value at `culprit` cannot be sent. The reason, a string, is on top. Pops it. May raise. Needs 12 stack slots.
void analysis_note(encoder *e, int culprit);

/// Adds `size` bytes to the current record. May raise.
void analysis_add(encoder *e, size_t size);

/// Completes the records. May raise.
void analysis_end(encoder *e);

/// Continues on this path. May raise.
static inline void encoder_follow(encoder *e, const path_step *path) {
    e->path = path;
    if (e->analysis != NULL) analysis_follow(e);
}

#endif
