// `opscript.fs.path`: functions of the texts of paths. Only `absolute` and `relative` ask the system, for the working directory.
#include <stdbool.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "Libraries/fs_raising.h"

static int join(lua_State *L) {
    int count = lua_gettop(L), first = 1;
    for (int i = 1; i <= count; i++)
        if (*fs_check_path(L, i) == '/') first = i;
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (int i = first; i <= count; i++) {
        size_t length;
        const char *part = lua_tolstring(L, i, &length);
        size_t written = luaL_bufflen(&buffer);
        if (length > 0 && written > 0 && luaL_buffaddr(&buffer)[written - 1] != '/') luaL_addchar(&buffer, '/');
        luaL_addlstring(&buffer, part, length);
    }
    luaL_pushresult(&buffer);
    return 1;
}

// The folder, the name, and the extension with its dot.
static int split(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end, folder;
    while (start > 0 && path[start - 1] != '/') start--;
    for (folder = start; folder > 1 && path[folder - 1] == '/';) folder--;
    lua_pushlstring(L, path, folder);
    lua_pushlstring(L, path + start, end - start);
    // A dot at the beginning of a name only hides the file.
    size_t dot = end;
    while (dot > start && path[dot - 1] != '.') dot--;
    bool has_extension = dot > start + 1 && strncmp(path + start, "..", end - start) != 0;
    lua_pushlstring(L, has_extension ? path + dot - 1 : "", has_extension ? end - dot + 1 : 0);
    return 3;
}

// Pushes the path as an absolute one, without `.`, `..` and empty names. Returns false, with `errno`, if there is no working directory.
static bool push_absolute(lua_State *L, const char *path) {
    int top = lua_gettop(L);
    if (*path != '/') {
        char folder[PATH_MAX];
        if (getcwd(folder, sizeof folder) == NULL) return false;
        lua_pushfstring(L, "%s/", folder);
        lua_pushstring(L, path);
        lua_concat(L, 2);
        path = lua_tostring(L, -1);
    }
    size_t size = strlen(path) + 2, count = 0;
    char *result = lua_newuserdatauv(L, size, 0);
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        if (length == 2 && memcmp(path, "..", 2) == 0) {
            while (count > 0 && result[--count] != '/') continue;
        } else if (length > 0 && !(length == 1 && *path == '.')) {
            result[count++] = '/';
            memcpy(result + count, path, length);
            count += length;
        }
        path += length + (path[length] == '/');
    }
    lua_pushlstring(L, count > 0 ? result : "/", count > 0 ? count : 1);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return true;
}

static int absolute(lua_State *L) {
    const char *path = fs_check_path(L, 1);
    return push_absolute(L, path) ? 1 : luaL_fileresult(L, 0, path);
}

// The way from a folder, the working directory by default, to a path.
static int relative(lua_State *L) {
    const char *path = fs_check_path(L, 1), *from = lua_isnoneornil(L, 2) ? "." : fs_check_path(L, 2);
    lua_settop(L, 2);
    if (!push_absolute(L, path) || !push_absolute(L, from)) return luaL_fileresult(L, 0, path);
    path = lua_tostring(L, 3) + 1;
    from = lua_tostring(L, 4) + 1;
    for (size_t length; *path != '\0' && *from != '\0'; path += length + (path[length] == '/'), from += length + (from[length] == '/')) {
        length = strcspn(path, "/");
        if (strcspn(from, "/") != length || memcmp(path, from, length) != 0) break;
    }
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (; *from != '\0'; from += strcspn(from, "/"), from += *from == '/')
        luaL_addstring(&buffer, *path != '\0' || strchr(from, '/') != NULL ? "../" : "..");
    luaL_addstring(&buffer, path);
    if (luaL_bufflen(&buffer) == 0) luaL_addchar(&buffer, '.');
    luaL_pushresult(&buffer);
    return 1;
}

const luaL_Reg fs_path_functions[] = {{"absolute", absolute}, {"join", join}, {"relative", relative}, {"split", split}, {NULL, NULL}};
