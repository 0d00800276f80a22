// Removing and copying trees of files. These functions call no Lua function and never raise, so no error leaves a descriptor open.
#ifndef CLUA_FS_TREE_H
#define CLUA_FS_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "state.h"

/// One piece of work.
typedef struct tree {
    clua_state *state;     // whose stop ends the work; NULL for work that nothing stops
    size_t entries;        // that were looked at
    char place[PATH_MAX];  // the path below the outermost entry where the work has failed; empty for that entry itself
    bool is_at_target;     // whether that path is one of the copy
    bool keeps_link;       // an outermost link is copied, and not what it leads to
    bool is_own;           // the tree is ours: folders that cannot be written are removed, too, and an error does not end the work
    int outermost;         // private: the descriptor of the folder that is being removed
    unsigned moved;        // private
} tree;

/// The error of work that its state has stopped.
#define TREE_STOPPED (-1)

/// The error of a copy that would contain itself.
#define TREE_IN_ITSELF (-2)

/// Whether running code of the state has to stop.
bool tree_is_stopped(const clua_state *state);

/// Opens the folder that has the entry at `path`, and copies the entry's name, which has no slash. Returns -1 with `errno` if that fails, or if the
/// path ends with `.` or `..`.
int tree_open_parent(const char *path, char name[NAME_MAX + 1]);

/// Writes a name that no other entry of a folder has.
void tree_new_name(char name[NAME_MAX + 1]);

/// Removes an entry of the folder `parent`, with its contents. Follows no link. Returns 0, an errno, or TREE_STOPPED.
int tree_remove(tree *work, int parent, const char *name);

/// Copies an entry of a folder with its contents, times and modes to a new entry. Follows no link, except `from` itself. Returns 0, an errno,
/// TREE_STOPPED or TREE_IN_ITSELF; after an error, part of the copy may exist.
int tree_copy(tree *work, int from_folder, const char *from, int to_folder, const char *to);

/// Writes all bytes. Returns 0, an errno, or TREE_STOPPED. `state` may be NULL.
int tree_write(const clua_state *state, int file, const char *bytes, size_t count);

#endif
