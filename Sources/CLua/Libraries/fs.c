// The library `opscript.fs`. Its functions run in the thread of their caller.
#define _GNU_SOURCE  // O_PATH
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "Core/tables_raising.h"
#include "Libraries/fs_raising.h"
#include "Libraries/fs_temporary.h"
#include "Libraries/fs_tree.h"
#include "Libraries/fs_type.h"
#include "Limits/count_raising.h"
#include "state.h"

const char *fs_check_path(lua_State *L, int argument) {
    size_t count;
    const char *path = luaL_checklstring(L, argument, &count);
    luaL_argcheck(L, strlen(path) == count, argument, "path contains a zero byte");
    return path;
}

// Pushes the result of a function: true, or nil, a message and the errno. `place` is what is below the path, or empty.
static int result(lua_State *L, int error, const char *path, const char *place) {
    if (error == TREE_STOPPED) {
        clua_look(L);
        error = EINTR;
    }
    if (error == 0) {
        lua_pushboolean(L, 1);
        return 1;
    }
    luaL_pushfail(L);
    if (error == TREE_IN_ITSELF)
        lua_pushfstring(L, "%s: cannot be copied into itself", path);
    else
        lua_pushfstring(L, "%s%s%s: %s", path, *place != '\0' ? "/" : "", place, strerror(error));
    lua_pushinteger(L, error == TREE_IN_ITSELF ? EINVAL : error);
    return 3;
}

static int fail(lua_State *L, const char *path) { return result(L, errno, path, ""); }

// MARK: asking

static void set_integer(lua_State *L, const char *name, lua_Integer value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static void set_time(lua_State *L, const char *name, const struct timespec *time) {
    lua_pushnumber(L, (lua_Number)time->tv_sec + (lua_Number)time->tv_nsec / 1e9);
    lua_setfield(L, -2, name);
}

static int fs_stat(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    struct stat about;
    if (fstatat(AT_FDCWD, path, &about, clua_boolean_option(L, "follow", true) ? 0 : AT_SYMLINK_NOFOLLOW) != 0) return fail(L, path);
    lua_createtable(L, 0, 10);
    lua_pushstring(L, fs_type(about.st_mode));
    lua_setfield(L, -2, "type");
    set_integer(L, "size", (lua_Integer)about.st_size);
    set_integer(L, "mode", about.st_mode & 07777);
    set_time(L, "modified", &about.st_mtim);
    set_time(L, "accessed", &about.st_atim);
    set_integer(L, "user", about.st_uid);
    set_integer(L, "group", about.st_gid);
    set_integer(L, "device", (lua_Integer)about.st_dev);
    set_integer(L, "inode", (lua_Integer)about.st_ino);
    set_integer(L, "links", (lua_Integer)about.st_nlink);
    return 1;
}

static int exists(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    struct stat about;
    bool exists = stat(path, &about) == 0;
    if (!exists && errno != ENOENT && errno != ENOTDIR) return fail(L, path);
    lua_pushboolean(L, exists);
    return 1;
}

static int read_link(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    char target[PATH_MAX];
    ssize_t count = readlink(path, target, sizeof target);
    if (count < 0) return fail(L, path);
    lua_pushlstring(L, target, (size_t)count);
    return 1;
}

// MARK: contents

typedef struct reading {
    int file, error;
} reading;

// Stack: the reading. Returns the contents, or nothing with an error. The file stays open.
static int read_all(lua_State *L) {
    enum { LEAST = 1 << 12, MOST = 1 << 24 };
    reading *reading = lua_touserdata(L, 1);
    struct stat about;
    size_t room = fstat(reading->file, &about) == 0 && about.st_size > 0 ? (size_t)about.st_size + 1 : LEAST;
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (;;) {
        char *bytes = luaL_prepbuffsize(&buffer, room);
        ssize_t count = read(reading->file, bytes, room < MOST ? room : MOST);
        if (count == 0) break;
        if (count < 0 && errno != EINTR) reading->error = errno;
        if (tree_is_stopped(clua_state_of(L))) reading->error = TREE_STOPPED;
        if (reading->error != 0) return 0;
        if (count < 0) continue;
        luaL_addsize(&buffer, (size_t)count);
        room -= (size_t)count;
        if (room == 0) room = luaL_bufflen(&buffer) > LEAST ? luaL_bufflen(&buffer) : LEAST;
    }
    luaL_pushresult(&buffer);
    return 1;
}

static int fs_read(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    reading reading = {.file = open(path, O_RDONLY | O_CLOEXEC)};
    if (reading.file < 0) return fail(L, path);
    lua_pushcfunction(L, read_all);
    lua_pushlightuserdata(L, &reading);
    int status = lua_pcall(L, 1, 1, 0);
    close(reading.file);
    if (status != LUA_OK) return lua_error(L);
    return reading.error == 0 ? 1 : result(L, reading.error, path, "");
}

// Writes a new file and gives it the name of the old one.
static int replace_file(const clua_state *state, int folder, const char *name, const char *text, size_t count) {
    struct stat old;
    bool replaces = fstatat(folder, name, &old, 0) == 0;
    if (replaces && !S_ISREG(old.st_mode)) return S_ISDIR(old.st_mode) ? EISDIR : EOPNOTSUPP;
    char new_name[NAME_MAX + 1];
    tree_new_name(new_name);
    int file = openat(folder, new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return errno;
    int error = tree_write(state, file, text, count);
    if (error == 0 && replaces && fchmod(file, old.st_mode & 0777) != 0) error = errno;
    if (close(file) != 0 && error == 0) error = errno;
    if (error == 0 && renameat(folder, new_name, folder, name) != 0) error = errno;
    if (error != 0) unlinkat(folder, new_name, 0);
    return error;
}

static int fs_write(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    size_t count;
    const char *text = luaL_checklstring(L, 2, &count);
    char name[NAME_MAX + 1];
    struct stat about;
    // A link stays, and its target is replaced.
    char *target = lstat(path, &about) == 0 && S_ISLNK(about.st_mode) ? realpath(path, NULL) : strdup(path);
    int folder = target != NULL ? tree_open_parent(target, name) : -1;
    int error = folder >= 0 ? replace_file(clua_state_of(L), folder, name, text, count) : errno;
    if (folder >= 0) close(folder);
    free(target);
    return result(L, error, path, "");
}

// MARK: changing trees

static int make_folder(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    char part[PATH_MAX];
    size_t count = strlen(path);
    if (count >= sizeof part) return result(L, ENAMETOOLONG, path, "");
    memcpy(part, path, count + 1);
    int error = count == 0 ? ENOENT : 0;
    for (size_t i = 1; i <= count && error == 0; i++) {
        if ((part[i] != '/' && part[i] != '\0') || part[i - 1] == '/') continue;
        char end = part[i];
        part[i] = '\0';
        struct stat about;
        error = mkdir(part, 0777) == 0 ? 0 : errno;
        if (error != 0 && stat(part, &about) == 0 && S_ISDIR(about.st_mode)) error = 0;
        if (error == 0) part[i] = end;
    }
    return result(L, error, *part != '\0' ? part : path, "");
}

static int make_link(lua_State *L) {
    const char *target = fs_check_path(L, 1), *path = fs_check_path(L, 2);
    return symlink(target, path) == 0 ? result(L, 0, path, "") : fail(L, path);
}

static int remove_path(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    tree work = {.state = clua_state_of(L)};
    char name[NAME_MAX + 1];
    int parent = tree_open_parent(path, name);
    if (parent < 0) return fail(L, path);
    int error = tree_remove(&work, parent, name);
    close(parent);
    return result(L, error, path, work.place);
}

// Copies to a new name beside `to`, so that no stop and no error leaves half a copy, and gives that the right name.
static int copy_to(tree *work, const char *from, const char *to) {
    char name[NAME_MAX + 1], new_name[NAME_MAX + 1];
    struct stat source, target;
    if ((work->keeps_link ? lstat(from, &source) : stat(from, &source)) != 0) return errno;
    work->is_at_target = true;
    int folder = tree_open_parent(to, name);
    if (folder < 0) return errno;
    bool exists = fstatat(folder, name, &target, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_kept = exists && (S_ISDIR(source.st_mode) || !(S_ISREG(target.st_mode) || S_ISLNK(target.st_mode)));
    int error = exists && ((is_kept && !work->keeps_link) || (source.st_dev == target.st_dev && source.st_ino == target.st_ino)) ? EEXIST : 0;
    tree_new_name(new_name);
    if (error == 0) {
        work->is_at_target = false;
        error = tree_copy(work, AT_FDCWD, from, folder, new_name);
        if (error == 0 && renameat(folder, new_name, folder, name) != 0) {
            work->is_at_target = true;
            error = errno;
        }
        tree rest = {.is_own = true};
        if (error != 0) tree_remove(&rest, folder, new_name);
    }
    close(folder);
    return error;
}

static int copy(lua_State *L) {
    const char *from = fs_check_path(L, 1), *to = fs_check_path(L, 2);
    tree work = {.state = clua_state_of(L)};
    int error = copy_to(&work, from, to);
    return result(L, error, work.is_at_target ? to : from, work.place);
}

static int move(lua_State *L) {
    const char *from = fs_check_path(L, 1), *to = fs_check_path(L, 2);
    struct stat about;
    if (rename(from, to) == 0) return result(L, 0, from, "");
    if (errno != EXDEV) {
        int error = errno;
        return result(L, error, lstat(from, &about) == 0 ? to : from, "");
    }
    tree work = {.state = clua_state_of(L), .keeps_link = true};
    int error = copy_to(&work, from, to);
    if (error == 0) {
        char name[NAME_MAX + 1];
        work.is_at_target = false;
        int parent = tree_open_parent(from, name);
        error = parent >= 0 ? tree_remove(&work, parent, name) : errno;
        if (parent >= 0) close(parent);
    }
    return result(L, error, work.is_at_target ? to : from, work.place);
}

// MARK: temporary files

static int make_temporary(lua_State *L, bool is_folder) {
    const char *path = clua_make_temporary(clua_state_of(L), is_folder);
    if (path == NULL) return fail(L, clua_temporary_folder());
    lua_pushstring(L, path);
    return 1;
}

static int make_temporary_folder(lua_State *L) { return make_temporary(L, true); }
static int make_temporary_file(lua_State *L) { return make_temporary(L, false); }

// MARK: the library

void clua_open_fs(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"copy", copy},        {"exists", exists},     {"glob", fs_glob},     {"mkdir", make_folder},
        {"move", move},        {"read", fs_read},      {"readlink", read_link}, {"remove", remove_path},
        {"stat", fs_stat},     {"symlink", make_link}, {"tempdir", make_temporary_folder},
        {"tempfile", make_temporary_file}, {"walk", fs_walk}, {"write", fs_write}, {NULL, NULL}};
    if (clua_state_of(L)->restrictions & CLUA_NO_FILES) return;
    luaL_newlib(L, functions);
    clua_register_module(L, "opscript.fs");
    lua_createtable(L, 0, 4);
    luaL_setfuncs(L, fs_path_functions, 0);
    clua_register_module(L, "opscript.fs.path");
    lua_setfield(L, -2, "path");
    lua_setfield(L, -2, "fs");
}
