#include "ending.h"

#include <signal.h>
#include <time.h>

#include "loop.h"

enum {
    TICK = 10,       // milliseconds between two checks
    LOOK_PAUSE = 20, // times the processor time of one look at all processes, until the next one
};

// Each signal follows a grace after the one before it. SIGINT is the signal that a terminal sends for Ctrl-C.
static const int plans[][4] = {
    [CIO_CANCEL] = {SIGTERM, SIGKILL},
    [CIO_INTERRUPT] = {SIGINT, SIGTERM, SIGKILL},
};

static void send_to(pid_t process, int signal_number) {
    kill(process, signal_number);
    if (signal_number != SIGKILL) kill(process, SIGCONT);  // a stopped process must continue to end
}

static void visit(const group *group, pid_t process, bool has_left, void *context) {
    for (ending *ending = ((cio_loop *)context)->endings; ending != NULL; ending = ending->next) {
        if (ending->group != group) continue;
        ending->lives = true;
        if (ending->due != 0 && has_left) send_to(process, ending->due);
        if (ending->sent == SIGINT && !ending->heeds) ending->heeds = !process_ignores(process, SIGINT);
        return;
    }
}

static uint64_t processor_milliseconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

static void look_at_processes(cio_loop *loop) {
    uint64_t before = processor_milliseconds();
    for (ending *ending = loop->endings; ending != NULL; ending = ending->next) ending->lives = ending->heeds = false;
    bool has_seen = groups_visit(visit, loop);
    for (ending *ending = loop->endings; ending != NULL; ending = ending->next) {
        if (!has_seen) ending->lives = true;
        // The descendants got the signal first: their parents are gone afterwards.
        if (ending->due != 0 && ending->lives) send_to(-ending->group->leader, ending->due);
    }
    uv_update_time(&loop->uv);
    loop->look_at = uv_now(&loop->uv) + LOOK_PAUSE * (processor_milliseconds() - before + 1);
}

// Returns whether the ending is over.
static bool advance(ending *ending, bool has_looked, uint64_t now) {
    bool is_last = *ending->signals == 0, is_empty = has_looked && !ending->lives;
    // Processes that ignore SIGINT need no time to end after it.
    if (has_looked && ending->lives && ending->sent == SIGINT && !ending->heeds) ending->due_at = now;
    if (ending->due != 0) ending->sent = ending->due;
    ending->due = 0;
    if (is_empty ? ending->over_at == 0 : is_last && ending->over_at == 0) ending->over_at = now;
    if (has_looked && ending->lives && !is_last) ending->over_at = 0;
    if (!has_looked && ending->over_at == 0) return false;
    return ending->look(ending, is_empty, ending->over_at != 0 ? now - ending->over_at : 0);
}

static void unlist(cio_loop *loop, const ending *ending) {
    struct ending **link = &loop->endings;
    while (*link != ending) link = &(*link)->next;
    *link = ending->next;
}

static void on_tick(uv_timer_t *timer) {
    cio_loop *loop = timer->data;
    uint64_t now = uv_now(&loop->uv);
    bool looks = now >= loop->look_at;
    for (ending *ending = loop->endings; ending != NULL; ending = ending->next) {
        if (*ending->signals == 0 || now < ending->due_at) continue;
        ending->due = *ending->signals++;
        ending->due_at = now + ending->grace;
        looks = true;
    }
    if (looks) look_at_processes(loop);
    for (ending *ending = loop->endings, *next; ending != NULL; ending = next) {
        next = ending->next;
        if (advance(ending, looks, now)) unlist(loop, ending);
    }
    if (loop->endings == NULL) uv_timer_stop(timer);
}

void ending_begin(cio_loop *loop, ending *ending, cio_cause cause) {
    uv_update_time(&loop->uv);
    ending->signals = plans[cause];
    ending->due_at = uv_now(&loop->uv);
    ending->next = loop->endings;
    loop->endings = ending;
    // Programs that are ended at the same time share one look.
    uv_timer_start(&loop->ender, on_tick, 0, TICK);
}
