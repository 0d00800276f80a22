// `walk` and `glob` of `opscript.fs`.
//
// A walk reads a folder at once and closes it, so no walk that a script leaves early keeps a descriptor.
#define _GNU_SOURCE  // qsort_r
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "Core/memory_raising.h"
#include "Libraries/fs_raising.h"
#include "Libraries/fs_tree.h"
#include "Libraries/fs_type.h"
#include "Limits/count_raising.h"

// A pattern has components between slashes. A set of them says which ones may match the next name of a path, one bit for each.
enum { MOST_COMPONENTS = 63 };
typedef uint64_t set;

typedef struct pattern {
    const char *components[MOST_COMPONENTS + 1];  // parts of a copy, each with a zero
    int count;                                    // 0 for no pattern
    bool matches_hidden;
} pattern;

typedef struct entry {
    size_t name;         // in the names of its folder
    const char *type;
    lua_Integer size;
    bool is_match, is_folder;
    set next;            // for the entries of this folder
    dev_t device;
    ino_t inode;
} entry;

// A folder that is being walked through.
typedef struct level {
    entry *entries;
    char *names;
    size_t count, capacity, position;  // of entries
    size_t name_bytes, name_capacity;
    size_t path_count;
    dev_t device;
    ino_t inode;
} level;

// A userdata. Its memory is the state's.
typedef struct walk {
    pattern pattern;
    bool follows, gives_files;  // `gives_files`: for glob, which gives nothing else, and follows links that no `**` stands for
    bool enters;                // whether the next step begins with the folder at `path`
    set next;                   // for its entries
    dev_t device;
    ino_t inode;
    char *path;
    size_t path_count, path_capacity;
    level *levels;
    size_t depth, capacity;
} walk;

// MARK: memory

// Makes room for `count` items in the block whose address is at `items`. Returns false if there is no memory. Never raises.
static bool grow(lua_State *L, void *items, size_t count, size_t *capacity, size_t size) {
    if (count <= *capacity) return true;
    void *context, *block;
    memcpy(&block, items, sizeof block);
    lua_Alloc allocator = lua_getallocf(L, &context);
    size_t larger = count < 16 ? 16 : 2 * count;
    block = allocator(context, block, *capacity * size, larger * size);
    if (block == NULL) return false;
    memcpy(items, &block, sizeof block);
    *capacity = larger;
    return true;
}

static void release(lua_State *L, void *block, size_t size) {
    void *context;
    lua_Alloc allocator = lua_getallocf(L, &context);
    if (block != NULL) allocator(context, block, size, 0);
}

static void leave_folder(lua_State *L, walk *w) {
    level *left = &w->levels[--w->depth];
    release(L, left->entries, left->capacity * sizeof *left->entries);
    release(L, left->names, left->name_capacity);
}

static int free_walk(lua_State *L) {
    walk *w = lua_touserdata(L, 1);
    while (w->depth > 0) leave_folder(L, w);
    release(L, w->levels, w->capacity * sizeof *w->levels);
    release(L, w->path, w->path_capacity);
    w->levels = NULL;
    w->path = NULL;
    w->capacity = w->path_capacity = 0;
    w->enters = false;
    return 0;
}

// MARK: patterns

static bool is_any_folders(const char *component) { return strcmp(component, "**") == 0; }

// Adds a component, and those after it if it is `**`, which may stand for no folder.
static set with(const pattern *pattern, set components, int number) {
    components |= (set)1 << number;
    while (number < pattern->count && is_any_folders(pattern->components[number])) components |= (set)1 << ++number;
    return components;
}

// The components that may match the entries of a folder with this name; bit `count` says that the name itself matches.
static set step(const pattern *pattern, set components, const char *name, bool without_any) {
    set next = 0;
    for (int i = 0; i < pattern->count; i++) {
        if (!(components >> i & 1)) continue;
        bool is_any = is_any_folders(pattern->components[i]);
        if (is_any ? !without_any && (*name != '.' || pattern->matches_hidden)
                   : fnmatch(pattern->components[i], name, pattern->matches_hidden ? 0 : FNM_PERIOD) == 0)
            next = with(pattern, next, is_any ? i : i + 1);
    }
    return next;
}

// Splits the copy of a pattern. `**` at its end means any file below.
static void split(lua_State *L, pattern *pattern, char *text, int argument) {
    for (char *next; text != NULL; text = next) {
        next = strchr(text, '/');
        if (next != NULL) *next++ = '\0';
        if (*text == '\0' || strcmp(text, ".") == 0) continue;
        if (pattern->count >= MOST_COMPONENTS - 1) luaL_argerror(L, argument, "the pattern has too many slashes");
        pattern->components[pattern->count++] = text;
    }
    if (pattern->count > 0 && is_any_folders(pattern->components[pattern->count - 1])) pattern->components[pattern->count++] = "*";
}

// MARK: reading a folder

static int compare(const void *one, const void *other, void *names) {
    return strcmp((const char *)names + ((const entry *)one)->name, (const char *)names + ((const entry *)other)->name);
}

static bool is_inside_itself(const walk *w, const entry *entry) {
    for (size_t i = 0; i < w->depth; i++)
        if (w->levels[i].device == entry->device && w->levels[i].inode == entry->inode) return true;
    return false;
}

// Completes an entry whose type is still that of the list. Returns whether it is of interest.
static bool examine(const walk *w, int folder, entry *entry, const char *name, set components, unsigned char kind) {
    bool has_pattern = w->pattern.count > 0, knows_kind = kind != DT_UNKNOWN && kind != DT_LNK;
    entry->next = step(&w->pattern, components, name, false);
    entry->is_match = has_pattern ? (entry->next >> w->pattern.count & 1) != 0 : *name != '.' || w->pattern.matches_hidden;
    set deeper = has_pattern ? entry->next & (((set)1 << w->pattern.count) - 1) : entry->is_match;
    if (!entry->is_match && (deeper == 0 || (knows_kind && kind != DT_DIR))) return false;
    struct stat about = {0};
    if (knows_kind && !entry->is_match && !w->follows) {
        about.st_mode = S_IFDIR;
    } else if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;  // it has just been removed
    }
    bool is_link = S_ISLNK(about.st_mode);
    struct stat target;
    if (is_link && (w->follows || w->gives_files) && fstatat(folder, name, &target, 0) == 0) about = target;
    if (is_link && !w->follows) {
        entry->next = step(&w->pattern, components, name, true);
        deeper = w->gives_files ? entry->next & (((set)1 << w->pattern.count) - 1) : 0;
    }
    entry->device = about.st_dev;
    entry->inode = about.st_ino;
    entry->type = fs_type(about.st_mode);
    entry->size = (lua_Integer)about.st_size;
    entry->is_folder = S_ISDIR(about.st_mode) && deeper != 0 && !(w->follows && is_inside_itself(w, entry));
    entry->is_match &= !w->gives_files || S_ISREG(about.st_mode);
    return entry->is_match || entry->is_folder;
}

static int add_entry(lua_State *L, walk *w, level *level, int folder, const struct dirent *found, set components) {
    const char *name = found->d_name;
    entry entry = {.name = level->name_bytes};
    if (!examine(w, folder, &entry, name, components, found->d_type)) return 0;
    size_t bytes = strlen(name) + 1;
    if (!grow(L, &level->names, level->name_bytes + bytes, &level->name_capacity, 1)
        || !grow(L, &level->entries, level->count + 1, &level->capacity, sizeof entry))
        return ENOMEM;
    memcpy(level->names + level->name_bytes, name, bytes);
    level->name_bytes += bytes;
    level->entries[level->count++] = entry;
    return 0;
}

// Reads the folder at the walk's path into a new level. Returns an errno, or TREE_STOPPED. Never raises, so that the folder is closed.
static int read_folder(lua_State *L, walk *w) {
    enum { ENTRIES_PER_LOOK = 1024 };
    if (!grow(L, &w->levels, w->depth + 1, &w->capacity, sizeof *w->levels)) return ENOMEM;
    level *level = &w->levels[w->depth++];
    memset(level, 0, sizeof *level);
    level->device = w->device;
    level->inode = w->inode;
    DIR *list = opendir(w->path_count > 0 ? w->path : ".");
    if (list == NULL) return errno;
    int error = 0;
    for (size_t count = 1; error == 0; count++) {
        errno = 0;
        const struct dirent *found = readdir(list);
        error = errno;
        if (found == NULL) break;
        if (count % ENTRIES_PER_LOOK == 0 && tree_is_stopped(clua_state_of(L))) error = TREE_STOPPED;
        bool is_dots = found->d_name[0] == '.' && (found->d_name[1] == '\0' || (found->d_name[1] == '.' && found->d_name[2] == '\0'));
        if (error == 0 && !is_dots) error = add_entry(L, w, level, dirfd(list), found, w->next);
    }
    closedir(list);
    if (error == 0 && w->path_count > 0 && w->path[w->path_count - 1] != '/') {
        if (grow(L, &w->path, w->path_count + 2, &w->path_capacity, 1))
            w->path[w->path_count++] = '/';
        else
            error = ENOMEM;
    }
    // The walk goes on behind a folder that could not be read whole: its entries would have paths without the slash.
    if (error != 0) level->count = 0;
    level->path_count = w->path_count;
    if (level->count > 1) qsort_r(level->entries, level->count, sizeof *level->entries, compare, level->names);
    return error;
}

// MARK: walking

// Moves to the next entry that matches. Returns NULL at the end; otherwise the path is the walk's. Raises if a folder cannot be read.
static const entry *advance(lua_State *L, walk *w) {
    for (;;) {
        clua_count(L, 100);
        if (w->enters) {
            w->enters = false;
            size_t depth = w->depth;
            int error = read_folder(L, w);
            if (error == ENOMEM) {
                // Lua itself would collect garbage before it gives up.
                while (w->depth > depth) leave_folder(L, w);
                lua_gc(L, LUA_GCCOLLECT);
                error = read_folder(L, w);
            }
            // A folder that another program has just removed is none of the walk's. A pattern has no matches where nothing can be read.
            bool is_gone = (w->depth > 1 && (error == ENOENT || error == ENOTDIR || error == ELOOP)) || (w->gives_files && error == EACCES);
            if (error == TREE_STOPPED) clua_look(L);
            if (error == ENOMEM) clua_no_memory(L);
            if (error != 0 && !is_gone) {
                lua_pushfstring(L, "%s: %s", w->path_count > 0 ? w->path : ".", strerror(error == TREE_STOPPED ? EINTR : error));
                luaL_error(L, "%s", lua_tostring(L, -1));
            }
            clua_count(L, 100 * w->levels[w->depth - 1].count);
        }
        if (w->depth == 0) return NULL;
        level *level = &w->levels[w->depth - 1];
        if (level->position == level->count) {
            leave_folder(L, w);
            continue;
        }
        const entry *entry = &level->entries[level->position++];
        const char *name = level->names + entry->name;
        size_t bytes = strlen(name);
        if (!grow(L, &w->path, level->path_count + bytes + 2, &w->path_capacity, 1)) clua_no_memory(L);
        memcpy(w->path + level->path_count, name, bytes + 1);
        w->path_count = level->path_count + bytes;
        w->enters = entry->is_folder;
        w->next = entry->next;
        w->device = entry->device;
        w->inode = entry->inode;
        if (entry->is_match) return entry;
    }
}

// Pushes a walk that begins with the folder `path`, and whose pattern is the text with `count` bytes.
static walk *push_walk(lua_State *L, const char *path, const char *text, size_t count, int argument) {
    walk *w = lua_newuserdatauv(L, sizeof *w + count + 1, 0);
    memset(w, 0, sizeof *w);
    if (luaL_newmetatable(L, "opscript.fs.walk")) {
        lua_pushcfunction(L, free_walk);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    char *copy = memcpy(w + 1, text, count);
    copy[count] = '\0';
    split(L, &w->pattern, copy, argument);
    w->next = with(&w->pattern, 0, 0);
    w->path_count = strlen(path);
    if (!grow(L, &w->path, w->path_count + 2, &w->path_capacity, 1)) clua_no_memory(L);
    memcpy(w->path, path, w->path_count + 1);
    w->enters = true;
    return w;
}

// The iterator. Upvalue: the walk.
static int next_entry(lua_State *L) {
    walk *w = lua_touserdata(L, lua_upvalueindex(1));
    const entry *entry = advance(L, w);
    if (entry == NULL) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushlstring(L, w->path, w->path_count);
    lua_pushstring(L, entry->type);
    lua_pushinteger(L, entry->size);
    return 3;
}

// Reads a boolean option on top, and pops it.
static bool to_boolean(lua_State *L, const char *name) {
    if (!lua_isboolean(L, -1)) luaL_argerror(L, 2, lua_pushfstring(L, "%s must be true or false, got %s", name, luaL_typename(L, -1)));
    bool is_true = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is_true;
}

int fs_walk(lua_State *L) {
    const char *path = fs_check_path(L, 1), *text = "";
    size_t count = 0;
    bool follows = false, hidden = false;
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_pushnil(L);
    while (lua_istable(L, 2) && lua_next(L, 2)) {
        const char *key = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "?";
        if (strcmp(key, "follow") == 0) {
            follows = to_boolean(L, key);
        } else if (strcmp(key, "hidden") == 0) {
            hidden = to_boolean(L, key);
        } else if (strcmp(key, "match") == 0) {
            if (lua_type(L, 4) != LUA_TSTRING) luaL_argerror(L, 2, lua_pushfstring(L, "match must be a pattern, got %s", luaL_typename(L, 4)));
            text = lua_tolstring(L, 4, &count);
            luaL_argcheck(L, strlen(text) == count, 2, "match contains a zero byte");
            lua_pop(L, 1);
        } else {
            luaL_argerror(L, 2, lua_pushfstring(L, "unknown option '%s'", luaL_tolstring(L, 3, NULL)));
        }
    }
    lua_settop(L, 2);
    walk *w = push_walk(L, path, text, count, 2);
    w->follows = follows;
    w->pattern.matches_hidden = hidden;
    struct stat about;
    errno = ENOTDIR;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) return luaL_error(L, "%s: %s", path, strerror(errno));
    w->device = about.st_dev;
    w->inode = about.st_ino;
    lua_pushcclosure(L, next_entry, 1);
    return 1;
}

// The files with paths that match, as an array. The part of the pattern before the first wildcard is the folder where the walk begins.
int fs_glob(lua_State *L) {
    const char *text = fs_check_path(L, 1), *rest = text;
    for (const char *next = text;; next += strspn(next, "/")) {
        rest = next;
        next += strcspn(next, "/");
        if (*next == '\0' || memchr(rest, '*', (size_t)(next - rest)) || memchr(rest, '?', (size_t)(next - rest))
            || memchr(rest, '[', (size_t)(next - rest)) || memchr(rest, '\\', (size_t)(next - rest)))
            break;
    }
    lua_settop(L, 1);
    lua_newtable(L);
    if (strpbrk(rest, "*?[\\") == NULL) {
        struct stat about;
        if (stat(text, &about) == 0 && S_ISREG(about.st_mode)) {
            lua_pushvalue(L, 1);
            lua_rawseti(L, 2, 1);
        }
        return 1;
    }
    lua_pushlstring(L, text, (size_t)(rest - text));
    const char *folder = lua_tostring(L, 3);
    walk *w = push_walk(L, folder, rest, strlen(rest), 1);
    w->gives_files = true;
    struct stat about;
    w->enters = stat(*folder != '\0' ? folder : ".", &about) == 0 && S_ISDIR(about.st_mode);
    w->device = about.st_dev;
    w->inode = about.st_ino;
    for (lua_Integer i = 1; advance(L, w) != NULL; i++) {
        lua_pushlstring(L, w->path, w->path_count);
        lua_rawseti(L, 2, i);
    }
    lua_settop(L, 2);
    return 1;
}
