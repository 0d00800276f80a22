// Temporary files and folders, which are removed when their owner ends. Never raise.
#ifndef CLUA_FS_TEMPORARY_H
#define CLUA_FS_TEMPORARY_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/// TMPDIR or /tmp.
const char *clua_temporary_folder(void);

/// Makes a file or a folder in that folder, which belongs to what the state runs now. Returns its path, which stays valid until it is removed;
/// NULL with `errno` if that fails.
const char *clua_make_temporary(clua_state *state, bool is_folder);

/// Removes what the state has made since its `temporary_count` was `count`.
void clua_discard_temporaries(clua_state *state, uint32_t count);

#endif
