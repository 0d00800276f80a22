#define _GNU_SOURCE
#include "crypto.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "CNats.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char *(*sha256)(const unsigned char *, size_t, unsigned char *);
static int (*sha256_init)(void *), (*sha256_update)(void *, const void *, size_t), (*sha256_final)(unsigned char *, void *);
static void *(*new_private_key)(int, void *, const unsigned char *, size_t);
static int (*get_public_key)(const void *, unsigned char *, size_t *);
static void (*free_key)(void *);

static void load(void) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    // POSIX allows the conversion of a data pointer to a function pointer. C does not.
    *(void **)&sha256 = dlsym(library, "SHA256");
    *(void **)&sha256_init = dlsym(library, "SHA256_Init");
    *(void **)&sha256_update = dlsym(library, "SHA256_Update");
    *(void **)&sha256_final = dlsym(library, "SHA256_Final");
    *(void **)&new_private_key = dlsym(library, "EVP_PKEY_new_raw_private_key");
    *(void **)&get_public_key = dlsym(library, "EVP_PKEY_get_raw_public_key");
    *(void **)&free_key = dlsym(library, "EVP_PKEY_free");
}

bool cnats_digest(const void *bytes, size_t count, uint8_t digest[CNATS_DIGEST_COUNT]) {
    pthread_once(&once, load);
    return sha256 != NULL && sha256(bytes, count, digest) != NULL;
}

// SHA-256 takes blocks of this size.
enum { BLOCK_COUNT = 64 };

// The digest of the key, each byte xored with `pad`, and of three parts.
static bool digest_parts(
    const uint8_t key[BLOCK_COUNT], uint8_t pad, const void *first, size_t first_count, const void *second, size_t second_count, const void *third,
    size_t third_count, uint8_t digest[CNATS_DIGEST_COUNT]) {
    uint64_t context[32];  // more than a SHA256_CTX has
    uint8_t padded[BLOCK_COUNT];
    for (int i = 0; i < BLOCK_COUNT; i++) padded[i] = key[i] ^ pad;
    return sha256_init(context) && sha256_update(context, padded, BLOCK_COUNT) && sha256_update(context, first, first_count) &&
           sha256_update(context, second, second_count) && sha256_update(context, third, third_count) && sha256_final(digest, context);
}

// Written out, since OpenSSL's function looks up its algorithm at each call. That takes longer than the code of a short message.
bool cnats_authenticate(
    const void *key, size_t key_count, const void *subject, size_t subject_count, const void *bytes, size_t count,
    uint8_t code[CNATS_DIGEST_COUNT]) {
    uint8_t block[BLOCK_COUNT] = {0}, inner[CNATS_DIGEST_COUNT];
    pthread_once(&once, load);
    if (sha256_init == NULL || sha256_update == NULL || sha256_final == NULL) return false;
    if (key_count > BLOCK_COUNT) {
        if (!cnats_digest(key, key_count, block)) return false;
    } else if (key_count > 0) {
        memcpy(block, key, key_count);
    }
    return digest_parts(block, 0x36, subject, subject_count, "", 1, bytes, count, inner) &&
           digest_parts(block, 0x5c, inner, sizeof inner, "", 0, "", 0, code);
}

// The number that libcrypto gives to Ed25519.
#define ED25519 1087

bool crypto_public_key(const uint8_t *private_key, uint8_t *public_key) {
    pthread_once(&once, load);
    if (new_private_key == NULL || get_public_key == NULL || free_key == NULL) return false;
    void *key = new_private_key(ED25519, NULL, private_key, 32);
    size_t count = 32;
    bool is_made = key != NULL && get_public_key(key, public_key, &count) == 1 && count == 32;
    if (key != NULL) free_key(key);
    return is_made;
}
