// HTTP requests.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "transfers.h"

enum {
    BLOCK = 512 << 10,         // bytes that a file gets with one write
    MOST_HEADERS = 1 << 20,    // bytes of the headers of one response
    MOST_REDIRECTS = 10,
};

/// Bytes of a response in memory.
typedef struct text {
    char *bytes;
    size_t count, capacity;
} text;

struct cio_fetch {
    atomic_int references;
    atomic_bool is_asked_to_end, has_ended;
    atomic_bool has_block;  // the caller is to write the block that is not being filled
    int write_error;        // an errno of the caller's; the caller writes it while `has_block`
    cio_loop *loop;
    command start, end, written;
    cio_callback ready;
    cio_fetch_result result;
    char problem[CURL_ERROR_SIZE], said[CURL_ERROR_SIZE];  // `said`: by libcurl

    // The fields below belong to the loop's thread.
    CURL *easy;
    struct curl_slist *sent_headers;
    text headers, body;
    size_t limit;          // of `body`
    bool has_file;         // the body goes to a file
    int64_t part;          // where the next block belongs in the file
    int64_t sent_part;     // where the part that the server sends begins, from Content-Range; -1 if the server sends the whole
    bool has_begun_file;
    bool is_paused;        // both blocks are full
    bool is_writing;       // the caller has not written a block yet
    bool is_over;          // libcurl has finished
    char *blocks[2];       // of the file: one is written while the other one is filled
    size_t counts[2];
    int filling;           // the number of the block that is filled
    cio_fetch *next, *previous;  // links of the loop's list
};

static void release(cio_fetch *fetch) {
    if (atomic_fetch_sub_explicit(&fetch->references, 1, memory_order_acq_rel) != 1) return;
    if (fetch->easy != NULL) curl.curl_easy_cleanup(fetch->easy);
    fetch->ready.release(fetch->ready.context);
    curl.curl_slist_free_all(fetch->sent_headers);
    free(fetch->headers.bytes);
    free(fetch->body.bytes);
    free((char *)fetch->result.url);
    for (int i = 0; i < 2; i++) free(fetch->blocks[i]);
    loop_release(fetch->loop);
    free(fetch);
}

// MARK: the end, on the loop's thread

static void report(cio_fetch *fetch) {
    if (fetch->previous != NULL) fetch->previous->next = fetch->next;
    if (fetch->next != NULL) fetch->next->previous = fetch->previous;
    if (fetch->loop->fetches == fetch) fetch->loop->fetches = fetch->next;
    cio_fetch_result *result = &fetch->result;
    result->file_count = fetch->part;
    (result->headers = fetch->headers.bytes, result->header_count = fetch->headers.count);
    (result->body = fetch->body.bytes, result->body_count = fetch->body.count);
    atomic_store(&fetch->has_ended, true);
    fetch->ready.call(fetch->ready.context);
    release(fetch);
}

static void fail(cio_fetch *fetch, const char *problem) {
    if (fetch->result.problem != NULL) return;
    snprintf(fetch->problem, sizeof fetch->problem, "%s", problem);
    fetch->result.problem = fetch->problem;
}

static bool is_transient(CURLcode code) {
    static const CURLcode codes[] = {
        CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_HTTP2, CURLE_PARTIAL_FILE, CURLE_OPERATION_TIMEDOUT,
        CURLE_SSL_CONNECT_ERROR, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_HTTP2_STREAM,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code) return true;
    return false;
}

// Finds out where the body belongs in the file: behind what an earlier attempt has left there, or at its beginning.
static bool begin_file(cio_fetch *fetch) {
    if (fetch->has_begun_file) return true;
    fetch->has_begun_file = true;
    bool is_rest = fetch->part > 0 && fetch->result.status == 206;
    if (is_rest && fetch->sent_part == fetch->part) return true;
    fetch->part = 0;
    if (is_rest) fail(fetch, "the server has sent another part than the one that was asked for");
    fetch->result.is_transient = is_rest;
    return !is_rest;
}

void fetch_finish(cio_fetch *fetch, CURLcode code) {
    cio_fetch_result *result = &fetch->result;
    cio_loop *loop = fetch->loop;
    fetch->is_over = true;
    const char *url = NULL;
    curl.curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &result->status);
    curl.curl_easy_getinfo(fetch->easy, CURLINFO_RETRY_AFTER, &result->retry_after);
    if (curl.curl_easy_getinfo(fetch->easy, CURLINFO_EFFECTIVE_URL, &url) == 0 && url != NULL) result->url = strdup(url);
    transfers_remove(loop, fetch->easy);
    curl.curl_easy_cleanup(fetch->easy);
    fetch->easy = NULL;
    result->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    // There may have been no body. The response decides nevertheless whether the file has a part of it.
    if (fetch->has_file && result->status / 100 == 2 && result->problem == NULL) begin_file(fetch);
    // A callback that has failed says more than libcurl does about it.
    if (code != 0 && result->problem == NULL) {
        result->is_transient = is_transient(code);
        fail(fetch, fetch->said[0] != 0 ? fetch->said : curl.curl_easy_strerror(code));
    }
    if (!fetch->is_writing || result->is_ended) report(fetch);
}

// MARK: the response, on the loop's thread

static bool append(cio_fetch *fetch, text *text, const char *bytes, size_t count, size_t limit, const char *excess) {
    if (count > limit - text->count) {
        fail(fetch, excess);
        fetch->result.exceeded_limit = text == &fetch->body;
        return false;
    }
    if (text->count + count > text->capacity) {
        size_t capacity = 2 * (text->count + count);
        char *grown = realloc(text->bytes, capacity);
        if (grown == NULL) {
            fail(fetch, "not enough memory for the response");
            return false;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context) {
    cio_fetch *fetch = context;
    count *= size;
    // Each response of a chain of redirects begins so. The headers of the last one are kept.
    if (count > 5 && memcmp(bytes, "HTTP/", 5) == 0) {
        fetch->headers.count = 0;
        fetch->sent_part = -1;
    }
    static const char range[] = "content-range: bytes ";
    if (count > sizeof range && strncasecmp(bytes, range, sizeof range - 1) == 0) {
        char digits[72] = "";
        size_t length = count - (sizeof range - 1);
        memcpy(digits, bytes + sizeof range - 1, length < sizeof digits ? length : sizeof digits - 1);
        // A part that ends before the whole would leave the file short.
        long long first = -1, last = -1, whole = -1;
        int found = sscanf(digits, "%lld-%lld/%lld", &first, &last, &whole);
        fetch->sent_part = found < 2 || (found == 3 && last != whole - 1) ? -1 : first;
    }
    return append(fetch, &fetch->headers, bytes, count, MOST_HEADERS, "the headers of the response have more than 1 MiB") ? count : 0;
}

static void write_next_block(cio_fetch *fetch) {
    if (fetch->is_writing || fetch->counts[fetch->filling] == 0) return;
    fetch->filling = !fetch->filling;
    fetch->is_writing = true;
    atomic_store(&fetch->has_block, true);
    fetch->ready.call(fetch->ready.context);
}

// The caller has written a block.
static void on_written(command *command) {
    cio_fetch *fetch = CONTAINER(command, cio_fetch, written);
    fetch->is_writing = false;
    if (!atomic_load(&fetch->has_ended)) {
        size_t *count = &fetch->counts[!fetch->filling];
        if (fetch->write_error != 0) {
            fail(fetch, strerror(fetch->write_error));
            fetch->result.is_transient = false;
            fetch->counts[0] = fetch->counts[1] = 0;
            if (!fetch->is_over) fetch_finish(fetch, CURLE_WRITE_ERROR); else report(fetch);
        } else {
            fetch->part += (int64_t)*count;
            *count = 0;
            write_next_block(fetch);
            if (fetch->is_over && !fetch->is_writing) report(fetch);
            if (!fetch->is_over && fetch->is_paused) {
                fetch->is_paused = false;
                CURLcode code = curl.curl_easy_pause(fetch->easy, CURLPAUSE_CONT);
                if (code != 0) fetch_finish(fetch, code);
            }
        }
    }
    release(fetch);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
    cio_fetch *fetch = context;
    count *= size;
    curl.curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &fetch->result.status);
    // The text of an error is no file.
    if (!fetch->has_file || fetch->result.status / 100 != 2) {
        return append(fetch, &fetch->body, bytes, count, fetch->limit, "the body is larger than captureLimit") ? count : 0;
    }
    if (!begin_file(fetch) || fetch->result.problem != NULL) return 0;
    char **block = &fetch->blocks[fetch->filling];
    if (*block == NULL && (*block = malloc(BLOCK)) == NULL) {
        fail(fetch, "not enough memory for the response");
        return 0;
    }
    if (count > BLOCK - fetch->counts[fetch->filling]) {
        fetch->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    memcpy(*block + fetch->counts[fetch->filling], bytes, count);
    fetch->counts[fetch->filling] += count;
    write_next_block(fetch);
    return count;
}

// Without this function, sockets would stay open in programs that other code starts.
static int open_socket(void *context, int purpose, struct curl_sockaddr *address) {
    (void)context;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void end_fetch(cio_fetch *fetch) {
    fetch->result.is_ended = true;
    if (fetch->is_over) return report(fetch);
    fetch_finish(fetch, CURLE_ABORTED_BY_CALLBACK);
}

void fetches_end(cio_loop *loop) {
    while (loop->fetches != NULL) end_fetch(loop->fetches);
}

static void start(command *command) {
    cio_fetch *fetch = CONTAINER(command, cio_fetch, start);
    cio_loop *loop = fetch->loop;
    fetch->result.is_ended = loop->is_ending || atomic_load(&fetch->is_asked_to_end);
    if (!fetch->result.is_ended && transfers_open(loop)) {
        fetch->next = loop->fetches;
        if (fetch->next != NULL) fetch->next->previous = fetch;
        loop->fetches = fetch;
        if (transfers_add(loop, fetch->easy) == 0) return;
        return fetch_finish(fetch, CURLE_OUT_OF_MEMORY);
    }
    fetch->is_over = true;
    fail(fetch, curl.curl_easy_strerror(CURLE_OUT_OF_MEMORY));
    report(fetch);
}

static void end(command *command) {
    cio_fetch *fetch = CONTAINER(command, cio_fetch, end);
    if (!atomic_load(&fetch->has_ended)) end_fetch(fetch);
    release(fetch);
}

// MARK: from other threads

static bool add_header(cio_fetch *fetch, const char *text) {
    struct curl_slist *list = curl.curl_slist_append(fetch->sent_headers, text);
    if (list != NULL) fetch->sent_headers = list;
    return list != NULL;
}

// Returns false if memory runs out, or libcurl is too old.
static bool prepare(cio_fetch *fetch, const cio_request *request) {
    CURL *easy = fetch->easy;
    unsigned problems = 0;
#define SET(option, value) problems |= curl.curl_easy_setopt(easy, option, value)
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_PRIVATE, fetch);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_BUFFERSIZE, (long)BLOCK / 2);
    SET(CURLOPT_ERRORBUFFER, fetch->said);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, fetch);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, fetch);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_USERAGENT, request->agent);
    SET(CURLOPT_TIMEOUT_MS, (long)((request->timeout + 999999) / 1000000));
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)((request->connect_timeout + 999999) / 1000000));
    SET(CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
    if (curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != 0) SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    if (curl.curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") != 0)
        SET(CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    // Without it, the end of a request waits for a slow name server. Older versions lack it.
    curl.curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    if (request->authorities != NULL) SET(CURLOPT_CAINFO, request->authorities);
    if (request->uses_netrc) SET(CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    bool is_head = strcmp(request->method, "HEAD") == 0, is_post = strcmp(request->method, "POST") == 0;
    // libcurl would repeat other methods at the place to which "303 See Other" leads.
    bool is_redirected = is_head || is_post || strcmp(request->method, "GET") == 0;
    SET(CURLOPT_FOLLOWLOCATION, (long)is_redirected);
    if (is_post) SET(CURLOPT_POST, 1L);
    if (is_head) SET(CURLOPT_NOBODY, 1L);
    if (is_post || request->body != NULL) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (int64_t)request->body_count);
        SET(CURLOPT_COPYPOSTFIELDS, request->body != NULL ? request->body : "");
    }
    if (!is_redirected || (request->body != NULL && !is_post)) SET(CURLOPT_CUSTOMREQUEST, request->method);
    char range[32], validator[1024];
    if (request->part > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)request->part);
        SET(CURLOPT_RANGE, range);
        snprintf(validator, sizeof validator, "If-Range: %s", request->validator);
        problems |= !add_header(fetch, validator);
    }
    // Otherwise libcurl waits before it sends a large body, and calls each body a form.
    if (request->body != NULL) problems |= !add_header(fetch, "Expect:");
    if (request->body != NULL && !request->has_type) problems |= !add_header(fetch, "Content-Type:");
    for (const char *const *header = request->headers; *header != NULL; header++) problems |= !add_header(fetch, *header);
    SET(CURLOPT_HTTPHEADER, fetch->sent_headers);
#undef SET
    return problems == 0;
}

cio_fetch *cio_fetch_start(cio_loop *loop, const cio_request *request, cio_callback ready) {
    cio_fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch != NULL) {
        atomic_init(&fetch->references, 2);  // one for the caller, one for the loop
        loop_retain(loop);
        fetch->loop = loop;
        fetch->start.run = start;
        fetch->end.run = end;
        fetch->written.run = on_written;
        fetch->ready = ready;
        fetch->limit = request->limit;
        fetch->part = request->part;
        fetch->sent_part = -1;
        fetch->has_file = request->has_file;
        fetch->easy = curl.curl_easy_init();
        if (fetch->easy != NULL && prepare(fetch, request) && loop_post(loop, &fetch->start)) return fetch;
        release(fetch);
        release(fetch);
    } else {
        ready.release(ready.context);
    }
    return NULL;
}

bool cio_fetch_advance(cio_fetch *fetch, int descriptor) {
    if (!atomic_load(&fetch->has_block)) return atomic_load(&fetch->has_ended);
    int number = !fetch->filling;
    for (size_t count = 0; count < fetch->counts[number] && fetch->write_error == 0;) {
        ssize_t written = pwrite(descriptor, fetch->blocks[number] + count, fetch->counts[number] - count, fetch->part + (int64_t)count);
        if (written > 0) count += (size_t)written;
        else if (written == 0 || errno != EINTR) fetch->write_error = written == 0 ? ENOSPC : errno;
    }
    atomic_store(&fetch->has_block, false);
    atomic_fetch_add_explicit(&fetch->references, 1, memory_order_relaxed);
    if (!loop_post(fetch->loop, &fetch->written)) release(fetch);
    return atomic_load(&fetch->has_ended);
}

void cio_fetch_end(cio_fetch *fetch) {
    if (atomic_load(&fetch->has_ended) || atomic_exchange(&fetch->is_asked_to_end, true)) return;
    atomic_fetch_add_explicit(&fetch->references, 1, memory_order_relaxed);
    if (!loop_post(fetch->loop, &fetch->end)) release(fetch);
}

const cio_fetch_result *cio_fetch_get_result(const cio_fetch *fetch) { return &fetch->result; }

void cio_fetch_release(cio_fetch *fetch) { release(fetch); }
