// libcurl on the loop's thread: it says which sockets to poll, and when it wants to be called.
#include "transfers.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

curl_library curl;

/// libcurl's part of a loop, made by the first request.
struct transfers {
    uv_timer_t timer;
    CURLM *multi;
    cio_loop *loop;
};

static void act(struct transfers *transfers, int socket, int events) {
    int count;
    curl.curl_multi_socket_action(transfers->multi, socket, events, &count);
    CURLMsg *message;
    while ((message = curl.curl_multi_info_read(transfers->multi, &count)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        cio_fetch *fetch = NULL;
        CURLcode code = message->data.result;
        curl.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
        fetch_finish(fetch, code);
    }
}

static void on_timer(uv_timer_t *timer) { act(timer->data, CURL_SOCKET_TIMEOUT, 0); }

static int on_time(CURLM *multi, long milliseconds, void *context) {
    (void)multi;
    struct transfers *transfers = context;
    uv_update_time(&transfers->loop->uv);
    if (milliseconds < 0) return uv_timer_stop(&transfers->timer);
    return uv_timer_start(&transfers->timer, on_timer, (uint64_t)milliseconds, 0);
}

typedef struct watched {
    uv_poll_t poll;
    int events;
} watched;

static void on_poll(uv_poll_t *poll, int status, int events) {
    int socket;
    if (uv_fileno((uv_handle_t *)poll, &socket) != 0) return;
    int bits = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    // A response may lie in a socket that has an error. libcurl reads it and finds the error itself.
    act(poll->data, socket, status < 0 ? CURL_CSELECT_IN | CURL_CSELECT_OUT : bits);
    // libuv has stopped the handle. The memory of a closed one is freed later.
    if (status < 0 && !uv_is_closing((uv_handle_t *)poll) && !uv_is_active((uv_handle_t *)poll))
        uv_poll_start(poll, ((watched *)poll)->events, on_poll);
}

static void free_handle(uv_handle_t *handle) { free(handle); }

static int on_socket(CURL *easy, int socket, int what, void *context, void *known) {
    (void)easy;
    struct transfers *transfers = context;
    uv_poll_t *poll = known;
    if (what == CURL_POLL_REMOVE) {
        if (poll != NULL) uv_close((uv_handle_t *)poll, free_handle);
        curl.curl_multi_assign(transfers->multi, socket, NULL);
        return 0;
    }
    if (poll == NULL) {
        // Sockets between libcurl and its threads were not opened by `open_socket`.
        fcntl(socket, F_SETFD, FD_CLOEXEC);
        poll = malloc(sizeof(watched));
        if (poll == NULL || uv_poll_init(&transfers->loop->uv, poll, socket) != 0) {
            free(poll);
            return -1;
        }
        poll->data = transfers;
        curl.curl_multi_assign(transfers->multi, socket, poll);
    }
    ((watched *)poll)->events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(poll, ((watched *)poll)->events, on_poll);
}

bool transfers_open(cio_loop *loop) {
    if (loop->transfers != NULL) return true;
    struct transfers *transfers = calloc(1, sizeof *transfers);
    if (transfers == NULL || (transfers->multi = curl.curl_multi_init()) == NULL) {
        free(transfers);
        return false;
    }
    transfers->loop = loop;
    uv_timer_init(&loop->uv, &transfers->timer);
    transfers->timer.data = transfers;
    // A paused transfer would hold up the others of its connection.
    curl.curl_multi_setopt(transfers->multi, CURLMOPT_PIPELINING, 0L);
    curl.curl_multi_setopt(transfers->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl.curl_multi_setopt(transfers->multi, CURLMOPT_SOCKETDATA, transfers);
    curl.curl_multi_setopt(transfers->multi, CURLMOPT_TIMERFUNCTION, on_time);
    curl.curl_multi_setopt(transfers->multi, CURLMOPT_TIMERDATA, transfers);
    loop->transfers = transfers;
    return true;
}

void transfers_close(cio_loop *loop) {
    if (loop->transfers == NULL) return;
    curl.curl_multi_cleanup(loop->transfers->multi);
    uv_close((uv_handle_t *)&loop->transfers->timer, free_handle);
    loop->transfers = NULL;
}

CURLMcode transfers_add(cio_loop *loop, CURL *easy) { return curl.curl_multi_add_handle(loop->transfers->multi, easy); }

void transfers_remove(cio_loop *loop, CURL *easy) { curl.curl_multi_remove_handle(loop->transfers->multi, easy); }

// MARK: loading, on any thread

static const char *missing;

static void load(void) {
    static char description[256];
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(description, sizeof description, "the library libcurl cannot be loaded (%s): install libcurl4", dlerror());
        missing = description;
        return;
    }
#define CURL_LOAD(result, name, ...)                                                                                        \
    *(void **)&curl.name = dlsym(library, #name);                                                                           \
    if (curl.name == NULL && missing == NULL) {                                                                             \
        snprintf(description, sizeof description, "the library libcurl of this machine is too old: it has no " #name);     \
        missing = description;                                                                                              \
    }
    CURL_FUNCTIONS(CURL_LOAD)
#undef CURL_LOAD
    // A process that exits must not take OpenSSL away from the loop's thread.
    enum { OPENSSL_INIT_NO_ATEXIT = 0x80000 };
    int (*initialize)(uint64_t options, const void *settings);
    *(void **)&initialize = dlsym(library, "OPENSSL_init_crypto");
    if (initialize != NULL) initialize(OPENSSL_INIT_NO_ATEXIT, NULL);
    if (missing == NULL && curl.curl_global_init(CURL_GLOBAL_ALL) != 0) missing = "the library libcurl cannot be initialized";
}

const char *cio_fetch_missing(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return missing;
}
