// The library `opscript.json`. May raise.
#ifndef CLUA_JSON_RAISING_H
#define CLUA_JSON_RAISING_H

#include <lua5.4/lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/// The value of `null` is the address of this byte, in all states of the process.
extern const char json_null;

/// Objects and arrays that contain each other are at most so deep.
enum { JSON_MOST_DEPTH = 1000 };

/// The number of bytes of the UTF-8 sequence at `bytes`, which begins with no ASCII byte; 0 if it is invalid. A zero follows the text. Never raises.
int json_sequence(const unsigned char *bytes);

/// The end of the bytes that stand for themselves in a string: a quote, a backslash, a control character, the beginning of a sequence, or the end of the
/// text, which a zero follows. Never raises.
static inline const char *json_skip_plain(const char *p, const char *end) {
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t quotes = word ^ ones * '"', backslashes = word ^ ones * '\\';
        if (((word | (word - ones * ' ') | (quotes - ones) | (backslashes - ones)) & highs) != 0) break;
    }
    for (; (unsigned char)*p >= ' ' && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\'; p++) continue;
    return p;
}

/// The functions of the library.
int json_decode(lua_State *L);
int json_encode(lua_State *L);

/// Gives the module on top the library `json`. Needs 5 free stack slots.
void clua_open_json(lua_State *L);

#endif
