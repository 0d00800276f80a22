// Passes the lines of a program on to stdout or stderr of this process, each with a label before it. A thread of libuv's pool writes them, because
// that may block; the program waits meanwhile, as soon as its pipe is full.
#include "label.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPACITY = 1 << 16 };  // a longer line is passed on in pieces

struct label {
    uv_pipe_t pipe;
    uv_work_t work;
    FILE *target;
    char *text;  // owned
    void (*ended)(void *context);
    void *context;
    size_t count;  // bytes that were read
    size_t whole;  // of these, those that the pool's thread writes
    bool is_writing;
    bool has_failed;  // the output takes no more
    bool is_ending;   // nothing more is read
    bool is_inside;   // the last piece was no whole line
    char bytes[CAPACITY];
};

static void on_close(uv_handle_t *handle) {
    label *label = handle->data;
    label->ended(label->context);
    free(label->text);
    free(label);
}

static void finish(label *label) {
    label->is_ending = true;
    if (!label->is_writing && !uv_is_closing((uv_handle_t *)&label->pipe)) uv_close((uv_handle_t *)&label->pipe, on_close);
}

// The lines with their labels, in one piece of memory, and its length. NULL if memory runs out.
static char *labelled(label *label, size_t *length) {
    size_t text_length = strlen(label->text), line_count = 1;
    for (size_t i = 0; i < label->whole; i++) line_count += label->bytes[i] == '\n';
    char *all = malloc(label->whole + line_count * (text_length + 3)), *next = all;
    if (all == NULL) return NULL;
    size_t start = 0;
    // The piece before has got its newline already.
    if (label->is_inside && label->whole > 0 && label->bytes[0] == '\n') start = 1;
    while (start < label->whole) {
        const char *line = label->bytes + start;
        const char *end = memchr(line, '\n', label->whole - start);
        size_t count = end != NULL ? (size_t)(end - line) : label->whole - start;
        next = mempcpy(mempcpy(next, label->text, text_length), ": ", 2);
        next = mempcpy(next, line, count);
        *next++ = '\n';
        start += count + (end != NULL);
    }
    label->is_inside = label->whole > 0 && label->bytes[label->whole - 1] != '\n';
    *length = (size_t)(next - all);
    return all;
}

// On a thread of the pool. One write, so that no other process writes inside a line, and with the lock of the file, which keeps our own output out.
static void write_lines(uv_work_t *work) {
    label *label = work->data;
    size_t length = 0;
    char *all = labelled(label, &length);
    flockfile(label->target);
    label->has_failed = all == NULL || fflush(label->target) != 0 || fwrite(all, 1, length, label->target) != length || fflush(label->target) != 0;
    funlockfile(label->target);
    free(all);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);

static bool write_first(label *label, size_t whole);

static void on_written(uv_work_t *work, int status) {
    (void)status;
    label *label = work->data;
    label->is_writing = false;
    label->count -= label->whole;
    memmove(label->bytes, label->bytes + label->whole, label->count);
    if (label->has_failed) return finish(label);
    // The end of a line that has no newline, or lines that arrived during the write.
    if (label->is_ending && label->count > 0 && write_first(label, label->count)) return;
    if (label->is_ending || uv_read_start((uv_stream_t *)&label->pipe, on_allocate, on_read) != 0) finish(label);
}

static bool write_first(label *label, size_t whole) {
    label->whole = whole;
    label->work.data = label;
    label->is_writing = whole > 0 && uv_queue_work(label->pipe.loop, &label->work, write_lines, on_written) == 0;
    return label->is_writing;
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    label *label = handle->data;
    *buffer = uv_buf_init(label->bytes + label->count, (unsigned)(CAPACITY - label->count));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    (void)buffer;
    label *label = stream->data;
    if (count < 0) {
        uv_read_stop(stream);
        label->is_ending = true;
        if (!write_first(label, label->count)) finish(label);
        return;
    }
    label->count += (size_t)count;
    const char *last = memrchr(label->bytes, '\n', label->count);
    size_t whole = last != NULL ? (size_t)(last - label->bytes) + 1 : label->count == CAPACITY ? CAPACITY : 0;
    if (whole == 0) return;
    uv_read_stop(stream);
    if (!write_first(label, whole)) finish(label);
}

label *label_start(uv_loop_t *loop, int descriptor, const char *text, bool is_stderr, void (*ended)(void *context), void *context) {
    label *label = calloc(1, sizeof *label);
    char *copy = strdup(text);
    if (label == NULL || copy == NULL) {
        free(label);
        free(copy);
        close(descriptor);
        return NULL;
    }
    label->text = copy;
    label->target = is_stderr ? stderr : stdout;
    label->ended = ended;
    label->context = context;
    uv_pipe_init(loop, &label->pipe, 0);
    label->pipe.data = label;
    bool is_open = uv_pipe_open(&label->pipe, descriptor) == 0;
    if (!is_open) close(descriptor);
    if (!is_open || uv_read_start((uv_stream_t *)&label->pipe, on_allocate, on_read) != 0) finish(label);
    return label;
}

void label_stop(label *label) {
    if (uv_is_closing((uv_handle_t *)&label->pipe)) return;
    uv_read_stop((uv_stream_t *)&label->pipe);
    label->is_ending = true;
    if (!label->is_writing && !write_first(label, label->count)) finish(label);
}
