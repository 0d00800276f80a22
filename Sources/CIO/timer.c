#include <stdlib.h>

#include "jobs.h"
#include "loop.h"

struct cio_timer {
    atomic_int references;
    atomic_bool is_cancelled;
    cio_loop *loop;
    command start, cancel;

    // The fields below belong to the loop's thread.
    uv_timer_t uv;
    uint64_t due, period;  // nanoseconds on the clock of uv_hrtime; a period of 0 is none
    uint64_t stopped;      // what `stopped_time` has taken off
    bool is_limit;
    cio_callback callback;
    cio_timer *next, *previous;  // links of the loop's list
    bool is_listed;
};

static void timer_release(cio_timer *timer) {
    if (atomic_fetch_sub_explicit(&timer->references, 1, memory_order_acq_rel) != 1) return;
    loop_release(timer->loop);
    free(timer);
}

// MARK: on the loop's thread

static void on_close(uv_handle_t *handle) { timer_release(handle->data); }

static void close_timer(cio_timer *timer) {
    cio_loop *loop = timer->loop;
    timer->is_listed = false;
    if (timer->previous != NULL)
        timer->previous->next = timer->next;
    else
        loop->timers = timer->next;
    if (timer->next != NULL) timer->next->previous = timer->previous;
    uv_close((uv_handle_t *)&timer->uv, on_close);
    timer->callback.release(timer->callback.context);
}

static void on_timer(uv_timer_t *uv);

// The loop counts whole milliseconds. Round up, so that the timer never fires early.
static void arm(cio_timer *timer) {
    uv_update_time(&timer->loop->uv);
    uint64_t now = uv_now(&timer->loop->uv);
    uint64_t due = (timer->due + 999999) / 1000000;
    uv_timer_start(&timer->uv, on_timer, due > now ? due - now : 0, 0);
}

static void on_timer(uv_timer_t *uv) {
    cio_timer *timer = uv->data;
    uint64_t more = timer->is_limit ? stopped_time(&timer->stopped) : 0;
    if (more > 0) {
        timer->due += more;
        return arm(timer);
    }
    if (timer->period != 0) {
        uint64_t now = uv_hrtime();
        timer->due += timer->period;
        if (timer->due < now) timer->due = now + timer->period - (now - timer->due) % timer->period;
        arm(timer);
    }
    if (!atomic_load(&timer->is_cancelled)) timer->callback.call(timer->callback.context);
    if (timer->period == 0) close_timer(timer);
}

static void start(command *command) {
    cio_timer *timer = CONTAINER(command, cio_timer, start);
    cio_loop *loop = timer->loop;
    if (loop->is_stopping || atomic_load(&timer->is_cancelled)) {
        timer->callback.release(timer->callback.context);
        timer_release(timer);
        return;
    }
    uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    timer->next = loop->timers;
    if (timer->next != NULL) timer->next->previous = timer;
    loop->timers = timer;
    timer->is_listed = true;
    arm(timer);
}

static void cancel(command *command) {
    cio_timer *timer = CONTAINER(command, cio_timer, cancel);
    if (timer->is_listed) close_timer(timer);
    timer_release(timer);
}

void timers_cancel(cio_loop *loop) {
    while (loop->timers != NULL) close_timer(loop->timers);
}

// MARK: from other threads

cio_timer *cio_timer_start(cio_loop *loop, uint64_t delay, uint64_t period, bool is_limit, cio_callback callback) {
    cio_timer *timer = calloc(1, sizeof *timer);
    if (timer != NULL) {
        atomic_init(&timer->references, 2);  // one for the caller, one for the loop
        loop_retain(loop);
        timer->loop = loop;
        timer->start.run = start;
        timer->cancel.run = cancel;
        timer->due = uv_hrtime() + delay;
        timer->period = period;
        timer->is_limit = is_limit;
        timer->stopped = stopped_so_far();
        timer->callback = callback;
        if (loop_post(loop, &timer->start)) return timer;
        loop_release(loop);
        free(timer);
    }
    callback.release(callback.context);
    return NULL;
}

void cio_timer_cancel(cio_timer *timer) {
    if (atomic_exchange(&timer->is_cancelled, true)) return;
    atomic_fetch_add_explicit(&timer->references, 1, memory_order_relaxed);
    if (!loop_post(timer->loop, &timer->cancel)) timer_release(timer);
}

void cio_timer_release(cio_timer *timer) { timer_release(timer); }
