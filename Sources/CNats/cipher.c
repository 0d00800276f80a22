// AES-256-GCM, for what members send each other past the server.
#include <stdlib.h>

#include "CNats.h"
#include "crypto.h"

struct cnats_cipher {
    void *context;  // an EVP_CIPHER_CTX
};

cnats_cipher *cnats_cipher_make(const uint8_t key[CNATS_CIPHER_KEY_COUNT], bool seals) {
    const crypto_cipher_functions *functions = crypto_ciphers();
    cnats_cipher *cipher = functions == NULL ? NULL : malloc(sizeof *cipher);
    if (cipher == NULL) return NULL;
    cipher->context = functions->new_context();
    if (cipher->context != NULL && functions->init(cipher->context, functions->aes_256_gcm(), NULL, key, NULL, seals) == 1) return cipher;
    cnats_cipher_free(cipher);
    return NULL;
}

void cnats_cipher_free(cnats_cipher *cipher) {
    if (cipher->context != NULL) crypto_ciphers()->free_context(cipher->context);
    free(cipher);
}

// The controls of OpenSSL that read and write the tag.
enum { GET_TAG = 0x10, SET_TAG = 0x11 };

// The nonce of a record is its number.
enum { NONCE_COUNT = 12 };

static bool run(cnats_cipher *cipher, uint64_t number, const void *bytes, size_t count, void *result) {
    const crypto_cipher_functions *functions = crypto_ciphers();
    uint8_t nonce[NONCE_COUNT] = {0};
    for (int i = 0; i < 8; i++) nonce[NONCE_COUNT - 1 - i] = (uint8_t)(number >> (8 * i));
    int written;
    return functions->init(cipher->context, NULL, NULL, NULL, nonce, -1) == 1 &&
           functions->update(cipher->context, result, &written, bytes, (int)count) == 1 && written == (int)count;
}

bool cnats_cipher_seal(
    cnats_cipher *cipher, uint64_t number, const void *bytes, size_t count, void *sealed, uint8_t tag[CNATS_CIPHER_TAG_COUNT]) {
    const crypto_cipher_functions *functions = crypto_ciphers();
    uint8_t rest[16];
    int written;
    return run(cipher, number, bytes, count, sealed) && functions->final(cipher->context, rest, &written) == 1 &&
           functions->control(cipher->context, GET_TAG, CNATS_CIPHER_TAG_COUNT, tag) == 1;
}

bool cnats_cipher_open(
    cnats_cipher *cipher, uint64_t number, void *bytes, size_t count, const uint8_t tag[CNATS_CIPHER_TAG_COUNT]) {
    const crypto_cipher_functions *functions = crypto_ciphers();
    uint8_t rest[16];
    int written;
    return run(cipher, number, bytes, count, bytes) && functions->control(cipher->context, SET_TAG, CNATS_CIPHER_TAG_COUNT, (void *)tag) == 1 &&
           functions->final(cipher->context, rest, &written) == 1;
}
