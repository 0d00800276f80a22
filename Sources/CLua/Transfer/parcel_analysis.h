// What opscript.captures finds out. An encoder runs as for a parcel, which nobody gets; what cannot be sent is
// noted instead of raised, and the bytes are counted for each upvalue and global.
#ifndef CLUA_PARCEL_ANALYSIS_H
#define CLUA_PARCEL_ANALYSIS_H

#include "Transfer/encoder.h"

typedef struct analysis {
    int records;       // stack index of the array of records
    uint32_t current;  // the record whose bytes are being written; 0 for none
    size_t counted;    // bytes that have been counted
    list sizes;        // size_t, by record; the first is for none
    uint32_t count;    // of records
} analysis;

/// The value on top, reached by the root `step`, is written next: makes its record. May raise. Needs 12 stack slots.
void analysis_begin(encoder *e, path_step *step);

/// What is written next belongs to another path. May raise.
void analysis_follow(encoder *e);

/// The value at `culprit` cannot be sent, for the reason that is the string on top. Pops it. May raise. Needs 12 stack slots.
void analysis_note(encoder *e, int culprit);

/// `size` more bytes belong to what is being written. May raise.
void analysis_add(encoder *e, size_t size);

/// Completes the records. May raise.
void analysis_end(encoder *e);

/// Goes on with this path.
static inline void encoder_follow(encoder *e, const path_step *path) {
    e->path = path;
    if (e->analysis != NULL) analysis_follow(e);
}

#endif
