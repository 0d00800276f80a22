#define _GNU_SOURCE
#include "libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "CNats.h"

static const char *missing;
static char description[256];

// MARK: libcrypto

static void *crypto;
static unsigned char *(*sha256)(const unsigned char *, size_t, unsigned char *);
static int (*sha256_init)(void *), (*sha256_update)(void *, const void *, size_t), (*sha256_final)(unsigned char *, void *);

static void load_crypto(void) {
    crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (crypto == NULL) return;
    // A data pointer becomes one of a function: POSIX allows that, and C does not.
    *(void **)&sha256 = dlsym(crypto, "SHA256");
    *(void **)&sha256_init = dlsym(crypto, "SHA256_Init");
    *(void **)&sha256_update = dlsym(crypto, "SHA256_Update");
    *(void **)&sha256_final = dlsym(crypto, "SHA256_Final");
}

static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;

bool cnats_digest(const void *bytes, size_t count, uint8_t digest[CNATS_DIGEST_COUNT]) {
    pthread_once(&crypto_once, load_crypto);
    return sha256 != NULL && sha256(bytes, count, digest) != NULL;
}

// SHA-256 takes blocks of this size.
enum { BLOCK_COUNT = 64 };

// The digest of the key, each byte changed by `pad`, and of three parts.
static bool digest_parts(
    const uint8_t key[BLOCK_COUNT], uint8_t pad, const void *first, size_t first_count, const void *second, size_t second_count, const void *third,
    size_t third_count, uint8_t digest[CNATS_DIGEST_COUNT]) {
    uint64_t context[32];  // more than a SHA256_CTX has
    uint8_t padded[BLOCK_COUNT];
    for (int i = 0; i < BLOCK_COUNT; i++) padded[i] = key[i] ^ pad;
    return sha256_init(context) && sha256_update(context, padded, BLOCK_COUNT) && sha256_update(context, first, first_count) &&
           sha256_update(context, second, second_count) && sha256_update(context, third, third_count) && sha256_final(digest, context);
}

// By hand, since OpenSSL's own function looks up its algorithm at each call, which takes longer than a short message.
bool cnats_authenticate(
    const void *key, size_t key_count, const void *subject, size_t subject_count, const void *bytes, size_t count,
    uint8_t code[CNATS_DIGEST_COUNT]) {
    uint8_t block[BLOCK_COUNT] = {0}, inner[CNATS_DIGEST_COUNT];
    pthread_once(&crypto_once, load_crypto);
    if (sha256_init == NULL || sha256_update == NULL || sha256_final == NULL) return false;
    if (key_count > BLOCK_COUNT) {
        if (!cnats_digest(key, key_count, block)) return false;
    } else if (key_count > 0) {
        memcpy(block, key, key_count);
    }
    return digest_parts(block, 0x36, subject, subject_count, "", 1, bytes, count, inner) &&
           digest_parts(block, 0x5c, inner, sizeof inner, "", 0, "", 0, code);
}

// MARK: libnats

#if CNATS_IS_BUILT
nats_library nats_functions;

static void load(void) {
    void *library = dlopen("libnats.so.3.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) library = dlopen("libnats.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(description, sizeof description, "a cluster needs the library libnats, which cannot be loaded (%s): install libnats3.4",
                 dlerror());
        missing = description;
        return;
    }
#define NATS_LOAD(name)                                                                                                        \
    *(void **)&nats_functions.name = dlsym(library, #name);                                                                    \
    if (nats_functions.name == NULL && missing == NULL) {                                                                      \
        snprintf(description, sizeof description, "the library libnats of this machine is too old: it has no " #name);        \
        missing = description;                                                                                                 \
    }
    NATS_FUNCTIONS(NATS_LOAD)
#undef NATS_LOAD
    uint8_t digest[CNATS_DIGEST_COUNT];
    if (missing == NULL && !cnats_digest("", 0, digest)) missing = "a cluster needs the library libcrypto, which cannot be loaded: install libssl3";
}
#else
static void load(void) {
    missing = "this opscript was built without libnats, so it has no clusters: install libnats-dev (scripts/bootstrap --cluster), and "
              "build it again";
}
#endif

const char *cnats_missing(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return missing;
}
