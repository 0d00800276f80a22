// Functions of libcrypto, which is loaded at run time.
#ifndef CNATS_CRYPTO_H
#define CNATS_CRYPTO_H

#include <stdbool.h>
#include <stdint.h>

/// The public key of a private one of Ed25519: 32 bytes each. False without libcrypto.
bool crypto_public_key(const uint8_t *private_key, uint8_t *public_key);

#endif
