// The public key of an nkey's seed. libnats needs it besides the file with the seed.
#include <stdio.h>
#include <string.h>

#include "CNats.h"
#include "crypto.h"

// A seed is in base 32: two bytes with the kind of the key, the 32 bytes of the key, and a checksum. A public key has one byte for its kind.
enum { KEY_COUNT = 32, SEED_COUNT = 2 + KEY_COUNT + 2, PUBLIC_COUNT = 1 + KEY_COUNT + 2, SEED_LETTERS = 58 };
enum { KIND_SEED = 18 << 3, KIND_USER = 20 << 3 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static uint16_t checksum(const uint8_t *bytes, size_t count) {
    uint16_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum ^= (uint16_t)(bytes[i] << 8);
        for (int bit = 0; bit < 8; bit++) sum = (uint16_t)(sum & 0x8000 ? sum << 1 ^ 0x1021 : sum << 1);
    }
    return sum;
}

static bool decode(const char *text, uint8_t *bytes, size_t count) {
    uint32_t bits = 0;
    int bit_count = 0;
    for (size_t done = 0; done < count; text++) {
        const char *letter = *text != '\0' ? strchr(letters, *text) : NULL;
        if (letter == NULL) return false;
        bits = bits << 5 | (uint32_t)(letter - letters);
        bit_count += 5;
        if (bit_count < 8) continue;
        bit_count -= 8;
        bytes[done++] = (uint8_t)(bits >> bit_count);
    }
    return true;
}

static void encode(const uint8_t *bytes, size_t count, char *text) {
    uint32_t bits = 0;
    int bit_count = 0;
    for (size_t i = 0; i < count; i++) {
        bits = bits << 8 | bytes[i];
        for (bit_count += 8; bit_count >= 5;) {
            bit_count -= 5;
            *text++ = letters[bits >> bit_count & 31];
        }
    }
    if (bit_count > 0) *text++ = letters[bits << (5 - bit_count) & 31];
    *text = '\0';
}

// Finds the seed in a file, which may have other lines.
static bool read_seed(const char *path, uint8_t seed[SEED_COUNT]) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    char line[256];
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, " \t\r\n")] = '\0';
        is_found = strlen(line) == SEED_LETTERS && decode(line, seed, SEED_COUNT);
    }
    fclose(file);
    uint16_t sum = (uint16_t)(seed[SEED_COUNT - 2] | seed[SEED_COUNT - 1] << 8);
    return is_found && sum == checksum(seed, SEED_COUNT - 2) && (seed[0] & 0xf8) == KIND_SEED
        && ((seed[0] & 7) << 5 | seed[1] >> 3) == KIND_USER;
}

bool cnats_public_key(const char *seed_path, char text[CNATS_PUBLIC_KEY_SIZE]) {
    uint8_t seed[SEED_COUNT], key[PUBLIC_COUNT] = {KIND_USER};
    if (!read_seed(seed_path, seed) || !crypto_public_key(seed + 2, key + 1)) return false;
    uint16_t sum = checksum(key, 1 + KEY_COUNT);
    key[1 + KEY_COUNT] = (uint8_t)sum;
    key[2 + KEY_COUNT] = (uint8_t)(sum >> 8);
    encode(key, PUBLIC_COUNT, text);
    return true;
}
