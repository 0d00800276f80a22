// What libcrypto does, which is loaded at run time.
#ifndef CNATS_CRYPTO_H
#define CNATS_CRYPTO_H

#include <stdbool.h>
#include <stdint.h>

/// The public key of a private one of Ed25519: 32 bytes each. False without libcrypto.
bool crypto_public_key(const uint8_t *private_key, uint8_t *public_key);

/// What encrypts. The contexts are EVP_CIPHER_CTX.
typedef struct crypto_cipher_functions {
    void *(*new_context)(void);
    void (*free_context)(void *);
    const void *(*aes_256_gcm)(void);
    int (*init)(void *, const void *, void *, const uint8_t *, const uint8_t *, int);
    int (*update)(void *, uint8_t *, int *, const uint8_t *, int);
    int (*final)(void *, uint8_t *, int *);
    int (*control)(void *, int, int, void *);
} crypto_cipher_functions;

/// NULL without libcrypto.
const crypto_cipher_functions *crypto_ciphers(void);

#endif
