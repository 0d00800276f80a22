#define _GNU_SOURCE
#include "crypto.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "CNats.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char *(*sha256)(const unsigned char *, size_t, unsigned char *);
static unsigned char *(*hmac)(const void *, const void *, int, const unsigned char *, size_t, unsigned char *, unsigned *);
static const void *(*sha256_type)(void);
static void *(*new_private_key)(int, void *, const unsigned char *, size_t);
static int (*get_public_key)(const void *, unsigned char *, size_t *);
static void (*free_key)(void *);

static void load(void) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    // A data pointer becomes one of a function: POSIX allows that, and C does not.
    *(void **)&sha256 = dlsym(library, "SHA256");
    *(void **)&hmac = dlsym(library, "HMAC");
    *(void **)&sha256_type = dlsym(library, "EVP_sha256");
    *(void **)&new_private_key = dlsym(library, "EVP_PKEY_new_raw_private_key");
    *(void **)&get_public_key = dlsym(library, "EVP_PKEY_get_raw_public_key");
    *(void **)&free_key = dlsym(library, "EVP_PKEY_free");
}

bool cnats_digest(const void *bytes, size_t count, uint8_t digest[CNATS_DIGEST_COUNT]) {
    pthread_once(&once, load);
    return sha256 != NULL && sha256(bytes, count, digest) != NULL;
}

bool cnats_authenticate(const void *key, size_t key_count, const void *bytes, size_t count, uint8_t code[CNATS_DIGEST_COUNT]) {
    pthread_once(&once, load);
    if (hmac == NULL || sha256_type == NULL) return false;
    unsigned size = CNATS_DIGEST_COUNT;
    return hmac(sha256_type(), key, (int)key_count, bytes, count, code, &size) != NULL && size == CNATS_DIGEST_COUNT;
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
