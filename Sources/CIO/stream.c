// Our end of a pipe to a program. Any thread reads or writes as far as that does not block; the loop tells when to go on.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"
#include "spawn.h"

enum {
    ONE_READ = 1 << 16,  // bytes; a pipe holds as many
    USUAL_CAPACITY = 2 * ONE_READ,
    LONGEST_NUMERAL = 200,
};

struct cio_stream {
    atomic_int references;
    cio_loop *loop;
    bool writes;
    size_t limit;  // bytes that it keeps
    pid_t process;  // that may read and write: a forked one would take what belongs to this one
    cio_callback ready;
    command watch, leave;

    pthread_mutex_t lock;
    // The fields below are guarded.
    int descriptor;  // the loop closes it, because it may poll it; then -1
    bool is_watched;
    bool is_closed;  // no thread reads or writes any more
    bool is_lent;    // a program that starts is to read the pipe
    unsigned revision;  // changes with `bytes` and `has_ended`
    bool has_ended;  // the program and its children have closed the pipe
    bool is_leaving;  // the loop closes the descriptor soon
    char *bytes;     // owned; those from `first` to `last` have not been taken
    size_t first, last, capacity;
    size_t searched;  // up to here, no newline follows `first`

    // The fields below belong to the loop's thread.
    uv_poll_t poll;
    bool is_polled;  // `poll` is open, and owns a reference
    cio_stream *next, *previous;  // links of the loop's list of polled streams
};

static void release(cio_stream *stream) {
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1) return;
    stream->ready.release(stream->ready.context);
    close_descriptor(&stream->descriptor);
    pthread_mutex_destroy(&stream->lock);
    free(stream->bytes);
    loop_release(stream->loop);
    free(stream);
}

// MARK: on the loop's thread

static void on_close(uv_handle_t *handle) { release(handle->data); }

static void stop_polling(cio_stream *stream) {
    if (!stream->is_polled) return;
    stream->is_polled = false;
    cio_loop *loop = stream->loop;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        loop->streams = stream->next;
    if (stream->next != NULL) stream->next->previous = stream->previous;
    uv_poll_stop(&stream->poll);
    uv_close((uv_handle_t *)&stream->poll, on_close);
}

static void announce(cio_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->is_watched = false;
    pthread_mutex_unlock(&stream->lock);
    stream->ready.call(stream->ready.context);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    announce(poll->data);
}

// Owns a reference to the stream.
static void watch(command *command) {
    cio_stream *stream = CONTAINER(command, cio_stream, watch);
    cio_loop *loop = stream->loop;
    bool is_polling = false;
    if (loop->is_stopping) cio_stream_close(stream);
    pthread_mutex_lock(&stream->lock);
    // uv_poll_init makes the pipe non-blocking, also for a program that has got it.
    bool may_poll = stream->descriptor >= 0 && !stream->is_closed && !stream->is_lent;
    bool is_new = may_poll && !stream->is_polled && uv_poll_init(&loop->uv, &stream->poll, stream->descriptor) == 0;
    pthread_mutex_unlock(&stream->lock);
    if (may_poll) {
        if (is_new) {
            stream->poll.data = stream;
            stream->is_polled = true;
            atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
            stream->previous = NULL;
            stream->next = loop->streams;
            if (stream->next != NULL) stream->next->previous = stream;
            loop->streams = stream;
        }
        is_polling = stream->is_polled && uv_poll_start(&stream->poll, stream->writes ? UV_WRITABLE : UV_READABLE, on_ready) == 0;
    }
    if (!is_polling) announce(stream);
    release(stream);
}

// Owns a reference to the stream, and the descriptor.
static void leave(command *command) {
    cio_stream *stream = CONTAINER(command, cio_stream, leave);
    stop_polling(stream);
    pthread_mutex_lock(&stream->lock);
    close_descriptor(&stream->descriptor);
    pthread_mutex_unlock(&stream->lock);
    announce(stream);
    release(stream);
}

void streams_leave(cio_loop *loop) {
    while (loop->streams != NULL) {
        cio_stream *stream = loop->streams;
        // `ready` may drop the last reference of others.
        atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
        bool is_watched = uv_is_active((uv_handle_t *)&stream->poll);
        stop_polling(stream);
        cio_stream_close(stream);
        // A command that is still queued announces by itself.
        if (is_watched) announce(stream);
        release(stream);
    }
}

// MARK: from other threads

cio_stream *cio_stream_new(cio_loop *loop, int descriptor, bool writes, size_t limit, cio_callback ready) {
    cio_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || fcntl(descriptor, F_SETFL, O_NONBLOCK | (writes ? O_WRONLY : O_RDONLY)) != 0) {
        free(stream);
        close(descriptor);
        ready.release(ready.context);
        return NULL;
    }
    atomic_init(&stream->references, 1);
    loop_retain(loop);
    stream->loop = loop;
    stream->descriptor = descriptor;
    stream->writes = writes;
    stream->limit = limit;
    stream->process = getpid();
    stream->ready = ready;
    stream->watch.run = watch;
    stream->leave.run = leave;
    pthread_mutex_init(&stream->lock, NULL);
    return stream;
}

bool cio_stream_watch(cio_stream *stream, unsigned revision) {
    pthread_mutex_lock(&stream->lock);
    bool is_open = !stream->is_closed;
    bool has_changed = is_open && revision != CIO_ANY_REVISION && revision != (stream->revision & CIO_REVISIONS);
    bool is_new = is_open && !has_changed && !stream->is_watched;
    if (is_new) {
        stream->is_watched = true;
        atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&stream->lock);
    if (has_changed) stream->ready.call(stream->ready.context);
    if (!is_new || loop_post(stream->loop, &stream->watch)) return is_open;
    pthread_mutex_lock(&stream->lock);
    stream->is_watched = false;
    pthread_mutex_unlock(&stream->lock);
    release(stream);
    return false;
}

// Closes the descriptor soon. The lock is held.
static void leave_soon(cio_stream *stream) {
    if (stream->is_leaving) return;
    stream->is_leaving = true;
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    // The caller has a reference, too.
    if (!loop_post(stream->loop, &stream->leave)) atomic_fetch_sub_explicit(&stream->references, 1, memory_order_relaxed);
}

void cio_stream_close(cio_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->is_closed = true;
    free(stream->bytes);
    stream->bytes = NULL;
    stream->first = stream->last = stream->capacity = stream->searched = 0;
    leave_soon(stream);
    pthread_mutex_unlock(&stream->lock);
}

bool cio_stream_is_closed(cio_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    bool is_closed = stream->is_closed;
    pthread_mutex_unlock(&stream->lock);
    return is_closed;
}

void cio_stream_release(cio_stream *stream) {
    cio_stream_close(stream);
    release(stream);
}

int cio_stream_lend(cio_stream *stream, int *error) {
    pthread_mutex_lock(&stream->lock);
    int lent = -1;
    *error = 0;
    if (!stream->is_closed && !stream->is_lent && stream->first == stream->last && stream->descriptor >= 0) {
        lent = fcntl(stream->descriptor, F_DUPFD_CLOEXEC, 3);
        if (lent < 0) *error = errno;
        // The program expects that a read waits.
        if (lent >= 0) fcntl(lent, F_SETFL, O_RDONLY);
        stream->is_lent = lent >= 0;
    }
    pthread_mutex_unlock(&stream->lock);
    return lent;
}

void cio_stream_take_back(cio_stream *stream, int lent) {
    fcntl(lent, F_SETFL, O_RDONLY | O_NONBLOCK);
    close(lent);
    pthread_mutex_lock(&stream->lock);
    stream->is_lent = false;
    pthread_mutex_unlock(&stream->lock);
    stream->ready.call(stream->ready.context);
}

// MARK: reading, with the lock held

static size_t count_of(const cio_stream *stream) { return stream->last - stream->first; }

// Makes room for one read. Returns false if memory runs out.
static bool make_room(cio_stream *stream) {
    if (stream->capacity - stream->last >= ONE_READ) return true;
    size_t count = count_of(stream);
    if (stream->first > 0 && stream->capacity - count >= ONE_READ) {
        memmove(stream->bytes, stream->bytes + stream->first, count);
    } else {
        size_t capacity = stream->capacity == 0 ? USUAL_CAPACITY : 2 * stream->capacity;
        if (capacity > stream->limit + USUAL_CAPACITY) capacity = stream->limit + USUAL_CAPACITY;
        char *bytes = malloc(capacity);
        if (bytes == NULL) return false;
        if (count > 0) memcpy(bytes, stream->bytes + stream->first, count);
        free(stream->bytes);
        stream->bytes = bytes;
        stream->capacity = capacity;
    }
    stream->searched -= stream->first;
    stream->first = 0;
    stream->last = count;
    return true;
}

static void has_ended(cio_stream *stream) {
    stream->has_ended = true;
    stream->revision++;
    leave_soon(stream);
}

// Reads what the pipe has, once. Returns CIO_TAKEN if there are new bytes, or that there are no more.
static cio_take fill(cio_stream *stream) {
    if (stream->is_closed || stream->is_lent || getpid() != stream->process) return CIO_TAKE_CLOSED;
    if (stream->has_ended) return CIO_TAKE_END;
    if (count_of(stream) > stream->limit) return CIO_TAKE_LIMIT;
    if (!make_room(stream)) return CIO_TAKE_MEMORY;
    ssize_t count;
    do {
        count = read(stream->descriptor, stream->bytes + stream->last, ONE_READ);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) return CIO_TAKE_LATER;
    if (count > 0) {
        stream->last += (size_t)count;
        stream->revision++;
    } else {
        has_ended(stream);
    }
    return CIO_TAKEN;
}

static void drop(cio_stream *stream, size_t count) {
    stream->first += count;
    if (stream->first < stream->last) {
        if (stream->searched < stream->first) stream->searched = stream->first;
        return;
    }
    stream->first = stream->last = stream->searched = 0;
    if (stream->capacity <= USUAL_CAPACITY) return;
    free(stream->bytes);
    stream->bytes = NULL;
    stream->capacity = 0;
}

// A position behind `first`, for the format "n".
typedef struct cursor {
    cio_stream *stream;
    size_t at;
    bool lacks;    // more bytes must arrive before the end of the numeral is known
    bool is_long;  // it has more characters than Lua reads
} cursor;

static int next_byte(cursor *cursor) {
    cio_stream *stream = cursor->stream;
    if (cursor->at < count_of(stream)) return (unsigned char)stream->bytes[stream->first + cursor->at];
    if (!stream->has_ended) cursor->lacks = true;
    return 0;
}

static bool scan(cursor *cursor, const char *set) {
    int byte = next_byte(cursor);
    if (byte == 0 || strchr(set, byte) == NULL) return false;
    cursor->is_long = cursor->at >= LONGEST_NUMERAL;
    if (cursor->is_long) return false;
    cursor->at++;
    return true;
}

static size_t scan_digits(cursor *cursor, bool is_hexadecimal) {
    size_t count = 0;
    while (scan(cursor, is_hexadecimal ? "0123456789abcdefABCDEF" : "0123456789")) count++;
    return count;
}

// The length of the numeral at `first`, as `file:read("n")` of Lua recognizes it. Drops the white space before it.
static bool find_numeral(cio_stream *stream, size_t *length) {
    while (count_of(stream) > 0 && strchr(" \f\n\r\t\v", stream->bytes[stream->first]) != NULL && stream->bytes[stream->first] != 0)
        drop(stream, 1);
    cursor cursor = {.stream = stream};
    scan(&cursor, "+-");
    bool is_hexadecimal = false;
    size_t digits = 0;
    if (scan(&cursor, "0")) {
        is_hexadecimal = scan(&cursor, "xX");
        if (!is_hexadecimal) digits = 1;
    }
    digits += scan_digits(&cursor, is_hexadecimal);
    if (scan(&cursor, ".")) digits += scan_digits(&cursor, is_hexadecimal);
    if (digits > 0 && scan(&cursor, is_hexadecimal ? "pP" : "eE")) {
        scan(&cursor, "+-");
        scan_digits(&cursor, false);
    }
    *length = cursor.at;
    // As with Lua's files, the characters are taken, and are no number.
    if (cursor.is_long) stream->bytes[stream->first] = '?';
    return !cursor.lacks;
}

// Whether the stream has what `format` asks for: `length` bytes, and `rest` more to drop with them.
static bool find(cio_stream *stream, cio_format format, size_t wanted, size_t *length, size_t *rest) {
    *rest = 0;
    *length = count_of(stream);
    switch (format) {
    case CIO_LINE:
    case CIO_LINE_WITH_END: {
        size_t from = stream->searched > stream->first ? stream->searched : stream->first;
        const char *end = stream->last > from ? memchr(stream->bytes + from, '\n', stream->last - from) : NULL;
        if (end == NULL) {
            stream->searched = stream->last;
            return stream->has_ended;
        }
        stream->searched = (size_t)(end - stream->bytes);
        *length = stream->searched - stream->first + (format == CIO_LINE_WITH_END);
        *rest = format == CIO_LINE;
        return true;
    }
    case CIO_BYTES:
        if (*length < wanted || (wanted == 0 && *length == 0)) return stream->has_ended;
        *length = wanted;
        return true;
    case CIO_NUMERAL: return find_numeral(stream, length);
    case CIO_ALL: break;
    }
    return stream->has_ended;
}

// MARK: reading and writing

// Releases the lock. Tells a thread that waits for the pipe if this thread has read bytes from the pipe before the loop has seen them.
static void unlock_after_reading(cio_stream *stream, unsigned revision_before) {
    bool is_missed = stream->is_watched && stream->revision != revision_before && (count_of(stream) > 0 || stream->has_ended);
    pthread_mutex_unlock(&stream->lock);
    if (is_missed) stream->ready.call(stream->ready.context);
}

int cio_stream_take(void *object, int format, size_t wanted, char *bytes, size_t room, size_t *taken) {
    cio_stream *stream = object;
    pthread_mutex_lock(&stream->lock);
    unsigned revision = stream->revision;
    size_t rest;
    cio_take outcome = CIO_TAKEN;
    while (!find(stream, (cio_format)format, wanted, taken, &rest) && outcome == CIO_TAKEN) outcome = fill(stream);
    if (outcome == CIO_TAKEN) {
        bool is_empty = count_of(stream) == 0, may_be_empty = format == CIO_ALL || format == CIO_NUMERAL;
        if (is_empty && stream->is_closed) {
            outcome = CIO_TAKE_CLOSED;
        } else if (is_empty && !may_be_empty) {
            outcome = CIO_TAKE_END;
        } else if (*taken > room) {
            outcome = CIO_TAKE_ROOM;
        } else {
            if (*taken > 0) memcpy(bytes, stream->bytes + stream->first, *taken);
            drop(stream, *taken + rest);
        }
    }
    if (outcome == CIO_TAKE_LATER) *taken = stream->revision & CIO_REVISIONS;
    unlock_after_reading(stream, revision);
    return outcome;
}

cio_take cio_stream_keep(cio_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    unsigned revision = stream->revision;
    cio_take outcome = stream->is_watched ? CIO_TAKE_LATER : CIO_TAKEN;
    while (outcome == CIO_TAKEN) outcome = fill(stream);
    unlock_after_reading(stream, revision);
    return outcome;
}

// Writes without the signal that a closed pipe sends to the thread.
static ssize_t write_quietly(int descriptor, const char *bytes, size_t count) {
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ssize_t written;
    do {
        written = write(descriptor, bytes, count);
    } while (written < 0 && errno == EINTR);
    int error = errno;
    if (written < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE)) {
        static const struct timespec at_once = {0};
        while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

int cio_stream_write(cio_stream *stream, const char *bytes, size_t count, size_t *written) {
    *written = 0;
    pthread_mutex_lock(&stream->lock);
    int error = stream->is_closed ? EBADF : 0;
    while (error == 0 && *written < count) {
        ssize_t part = write_quietly(stream->descriptor, bytes + *written, count - *written);
        if (part < 0)
            error = errno;
        else
            *written += (size_t)part;
    }
    pthread_mutex_unlock(&stream->lock);
    return error;
}
