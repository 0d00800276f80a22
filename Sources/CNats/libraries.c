#define _GNU_SOURCE
#include "libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "CNats.h"

static const char *missing;
nats_library nats_functions;
static char description[256];

// `nats_Open` makes the process ignore SIGPIPE. Scripts that print, and their commands, need the signal, so this function restores its action:
// threads block the signal while they are in libnats. The threads that libnats starts here get no signals.
static bool open_library(void) {
    struct sigaction action;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    sigaction(SIGPIPE, NULL, &action);
    bool is_open = nats_functions.nats_Open(-1) == NATS_OK;
    sigaction(SIGPIPE, &action, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_open;
}

static void load(void) {
    void *library = dlopen("libnats.so.3.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) library = dlopen("libnats.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(description, sizeof description, "a cluster needs the library libnats, which cannot be loaded (%s): install libnats3.4",
                 dlerror());
        missing = description;
        return;
    }
#define NATS_LOAD(result, name, ...)                                                                                           \
    *(void **)&nats_functions.name = dlsym(library, #name);                                                                    \
    if (nats_functions.name == NULL && missing == NULL) {                                                                      \
        snprintf(description, sizeof description, "the library libnats of this machine is too old: it has no " #name);        \
        missing = description;                                                                                                 \
    }
    NATS_FUNCTIONS(NATS_LOAD)
#undef NATS_LOAD
    if (missing == NULL && !open_library()) missing = "not enough memory for the library libnats";
    uint8_t digest[CNATS_DIGEST_COUNT];
    if (missing == NULL && !cnats_digest("", 0, digest)) missing = "a cluster needs the library libcrypto, which cannot be loaded: install libssl3";
}

const char *cnats_missing(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return missing;
}
