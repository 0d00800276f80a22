#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "CPlatform.h"
#include "CTerminal.h"

// Marks a position in the stream for which a thread waits. The pump removes it.
static const char marker[] = "\x1b]777;opscript;sync\x07";
enum { MARKER = sizeof marker - 1, TAIL = 1 << 16, HELD_BACK = 200 /* milliseconds */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_active;
static int terminal = -1, master = -1, slave = -1, notice = -1, stop_pump = -1, synced_event = -1;
static int saved[3] = {-1, -1, -1};
static pthread_t pump_thread;
static struct termios original;
static atomic_uint sync_requested, sync_seen;
atomic_bool ct_was_resized, ct_was_continued, ct_changes_modes;

// Guarded by `lock`.
static enum { NOTHING, PROMPT, STATUS } bottom;
static bool is_visible;
static atomic_bool is_lent;
static int rows_above;             // rows of the prompt above the cursor
static char status[4096];
static size_t status_count;
static bool at_row_start = true;
static char tail[TAIL];            // an unfinished line, held back until its newline arrives
static size_t tail_count;
// The beginning of a line is on the screen. The status waits for its end. Above a prompt, `tail` still has it: it is written again with the rest.
static bool is_tail_shown;

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void write_all(int descriptor, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(descriptor, bytes, count);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd event = {descriptor, POLLOUT, 0};
            poll(&event, 1, 100);
        } else if (written < 0 && errno != EINTR) {
            return;
        }
        if (written > 0) bytes += written, count -= (size_t)written;
    }
}

static void signal_event(int descriptor) {
    int error = errno;
    eventfd_write(descriptor, 1);
    errno = error;
}

// MARK: the bottom, with the lock held

void ct_lock(void) { pthread_mutex_lock(&lock); }
void ct_unlock(void) { pthread_mutex_unlock(&lock); }
int ct_terminal(void) { return terminal; }
int ct_notice(void) { return notice; }

void ct_clear_notice(void) {
    eventfd_t count;
    eventfd_read(notice, &count);
}

void ct_write(const char *bytes, size_t count) {
    if (count == 0) return;
    write_all(terminal, bytes, count);
    at_row_start = bytes[count - 1] == '\n';
}

void ct_begin_row(void) {
    if (!at_row_start) ct_write("\r\n", 2);
}

void ct_bottom_is_prompt(int rows) {
    bottom = PROMPT;
    rows_above = rows;
    is_visible = true;
}

bool ct_bottom_is_visible(void) { return is_visible; }

void ct_bottom_take_away(void) {
    if (!is_visible) return;
    char erase[32];
    int count = rows_above > 0 ? snprintf(erase, sizeof erase, "\r\x1b[%dA\x1b[J", rows_above) : snprintf(erase, sizeof erase, "\r\x1b[J");
    write_all(terminal, erase, (size_t)count);
    is_visible = false;
    rows_above = 0;
    at_row_start = true;
}

static void draw_status(void) {
    if (bottom != STATUS || is_tail_shown || is_lent || status_count == 0) return;
    ct_bottom_take_away();
    write_all(terminal, status, status_count);
    // If the terminal becomes narrower, the row may wrap. With the cursor at its start, all of it can still be erased.
    write_all(terminal, "\r", 1);
    is_visible = true;
}

// The terminal may be in a mode in which a newline does not return the carriage.
static void write_lines(const char *bytes, size_t count) {
    const char *end = bytes + count;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        ct_write(bytes, (size_t)(stop - bytes));
        if (newline != NULL) ct_write("\r\n", 2);
        bytes = newline != NULL ? newline + 1 : end;
    }
}

void ct_forget_tail(void) {
    if (is_tail_shown) tail_count = 0;
    is_tail_shown = false;
}

void ct_bottom_none(void) {
    ct_bottom_take_away();
    bottom = NOTHING;
    ct_forget_tail();
    write_lines(tail, tail_count);
    tail_count = 0;
}

// Writes the beginning of an unfinished line, because its writer seems to wait for input.
static void show_tail(void) {
    ct_bottom_take_away();
    write_lines(tail, tail_count);
    // A line of several rows is not written again.
    is_tail_shown = bottom != PROMPT || (int)tail_count < ct_columns(terminal);
    if (bottom != PROMPT || !is_tail_shown) tail_count = 0;
    if (bottom != PROMPT) return;
    ct_begin_row();
    signal_event(notice);
}

// Makes room for the whole of a line whose beginning is in the row above the prompt.
static void recall_tail(void) {
    static const char erase[] = "\x1b[A\r\x1b[J";
    ct_bottom_take_away();
    write_all(terminal, erase, sizeof erase - 1);
    at_row_start = true;
    is_tail_shown = false;
}

static void emit(const char *bytes, size_t count) {
    if (bottom == NOTHING) return ct_write(bytes, count);
    bool was_shown = bottom == PROMPT && is_tail_shown && count > 0;
    if (was_shown) recall_tail();
    const char *last = memrchr(bytes, '\n', count);
    if (last != NULL) {
        ct_bottom_take_away();
        size_t whole = (size_t)(last - bytes) + 1;
        write_lines(tail, tail_count);
        write_lines(bytes, whole);
        tail_count = 0;
        is_tail_shown = false;
        bytes += whole;
        count -= whole;
        if (bottom == PROMPT)
            signal_event(notice);
        else
            draw_status();
    }
    if (is_tail_shown) return write_lines(bytes, count);
    while (count > 0) {
        size_t room = sizeof tail - tail_count, part = count < room ? count : room;
        memcpy(tail + tail_count, bytes, part);
        tail_count += part;
        bytes += part;
        count -= part;
        if (tail_count == sizeof tail) show_tail();
    }
    if (was_shown && tail_count > 0) show_tail();
}

void ct_status_show(const char *text, size_t count) {
    if (!is_active || is_lent || count > sizeof status) return;
    ct_lock();
    if (bottom != PROMPT) {
        bottom = STATUS;
        memcpy(status, text, count);
        status_count = count;
        draw_status();
    }
    ct_unlock();
}

void ct_status_hide(void) {
    ct_lock();
    if (bottom == STATUS) ct_bottom_none();
    ct_unlock();
}

// MARK: the pump

// Emits `bytes` without the markers in it. Returns how many bytes at the end may be the beginning of one.
static size_t emit_without_markers(const char *bytes, size_t count) {
    for (;;) {
        const char *found = memmem(bytes, count, marker, MARKER);
        if (found == NULL) break;
        emit(bytes, (size_t)(found - bytes));
        count -= (size_t)(found - bytes) + MARKER;
        bytes = found + MARKER;
        atomic_fetch_add(&sync_seen, 1);
        signal_event(synced_event);
    }
    size_t rest = count < MARKER - 1 ? count : MARKER - 1;
    while (rest > 0 && memcmp(bytes + count - rest, marker, rest) != 0) rest--;
    emit(bytes, count - rest);
    return rest;
}

static void *pump(void *unused) {
    (void)unused;
    static char buffer[1 << 16];
    size_t kept = 0;
    int64_t held_since = 0;
    for (;;) {
        struct pollfd events[2] = {{master, POLLIN, 0}, {stop_pump, POLLIN, 0}};
        bool holds = tail_count > 0 && !is_tail_shown;  // other threads only set the count to 0
        if (!holds) held_since = 0;
        int64_t left = holds && held_since != 0 ? held_since + HELD_BACK - milliseconds() : HELD_BACK;
        poll(events, 2, holds ? (left > 0 ? (int)left : 0) : -1);
        ssize_t count = read(master, buffer + kept, sizeof buffer - kept);
        ct_lock();
        if (count > 0) {
            size_t all = kept + (size_t)count;
            kept = emit_without_markers(buffer, all);
            memmove(buffer, buffer + all - kept, kept);
        }
        if (tail_count == 0 || is_tail_shown)
            held_since = 0;
        else if (held_since == 0)
            held_since = milliseconds();
        else if (milliseconds() - held_since >= HELD_BACK)
            show_tail();
        ct_unlock();
        if (count <= 0 && (events[1].revents & POLLIN) != 0) return NULL;
        if (count < 0 && errno == EIO && (events[0].revents & POLLHUP) != 0) return NULL;
    }
}

static void synchronize(int limit) {
    if (!is_active) return;
    unsigned mine = atomic_fetch_add(&sync_requested, 1) + 1;
    write_all(slave, marker, MARKER);
    int64_t end = milliseconds() + limit;
    while ((int)(atomic_load(&sync_seen) - mine) < 0 && milliseconds() < end) {
        struct pollfd event = {synced_event, POLLIN, 0};
        eventfd_t count;
        if (poll(&event, 1, 10) > 0) eventfd_read(synced_event, &count);
    }
}

void ct_relay_sync(void) { synchronize(1000); }

// MARK: signals

static struct sigaction previous_interrupt;

static void on_change(int signal_number) {
    int error = errno;
    if (signal_number == SIGWINCH) {
        // The pseudo-terminal gets the size before any thread can ask for it.
        struct winsize size;
        if (ioctl(terminal, TIOCGWINSZ, &size) == 0) ioctl(slave, TIOCSWINSZ, &size);
        ct_was_resized = true;
    } else {
        ct_was_continued = true;
    }
    signal_event(notice);
    errno = error;
}

static void on_interrupt(int signal_number) {
    if (previous_interrupt.sa_handler == SIG_DFL) {
        ct_relay_abandon();
        sigaction(signal_number, &previous_interrupt, NULL);
        raise(signal_number);
    } else if (previous_interrupt.sa_handler != SIG_IGN) {
        previous_interrupt.sa_handler(signal_number);
    }
    signal_event(notice);
}

void ct_wake_on_interrupt(void) {
    struct sigaction present;
    sigaction(SIGINT, NULL, &present);
    if (present.sa_handler == on_interrupt) return;
    previous_interrupt = present;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
}

static const int deadly[] = {SIGHUP, SIGTERM, SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
enum { DEADLY_COUNT = sizeof deadly / sizeof *deadly, FIRST_CRASH = 3 };
static struct sigaction previous_death[DEADLY_COUNT];

// Restores the terminal. The previous handler does the rest: for example Swift's, which describes a crash.
static void on_death(int signal_number, siginfo_t *info, void *unused) {
    (void)unused;
    ct_relay_abandon();
    int i = 0;
    while (deadly[i] != signal_number) i++;
    sigaction(signal_number, &previous_death[i], NULL);
    // A fault occurs again when this function has returned.
    if (info->si_code <= 0 || i <= FIRST_CRASH) raise(signal_number);
}

static void handle_signals(void) {
    struct sigaction change = {.sa_handler = on_change, .sa_flags = SA_RESTART}, present;
    static const int changes[] = {SIGWINCH, SIGCONT};
    for (int i = 0; i < 2; i++) {
        sigaction(changes[i], NULL, &present);
        if (present.sa_handler == SIG_DFL) sigaction(changes[i], &change, NULL);
    }
    struct sigaction death = {.sa_sigaction = on_death, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    for (int i = 0; i < DEADLY_COUNT; i++) {
        sigaction(deadly[i], NULL, &present);
        bool is_crash = i >= FIRST_CRASH;
        if (present.sa_handler != SIG_DFL && (!is_crash || present.sa_handler == SIG_IGN || present.sa_sigaction == on_death)) continue;
        previous_death[i] = present;
        sigaction(deadly[i], &death, NULL);
    }
}

void ct_relay_abandon(void) {
    if (!is_active) return;
    if (ct_changes_modes) tcsetattr(terminal, TCSANOW, &original);
    synchronize(300);
    if (is_visible) write_all(terminal, bottom == STATUS ? "\r\x1b[J" : "\r\n", bottom == STATUS ? 4 : 2);
}

// MARK: beginning and ending

static bool is_terminal(int descriptor, dev_t device) {
    struct stat about;
    return fstat(descriptor, &about) == 0 && S_ISCHR(about.st_mode) && about.st_rdev == device && isatty(descriptor);
}

static bool open_descriptors(int descriptor) {
    struct winsize size;
    struct stat about;
    if (fstat(descriptor, &about) != 0 || tcgetattr(descriptor, &original) != 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return false;
    struct termios raw = original;
    raw.c_oflag &= ~(tcflag_t)OPOST;  // the real terminal processes output
    raw.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (openpty(&master, &slave, NULL, &raw, &size) != 0) return false;
    int low = slave;
    slave = fcntl(low, F_DUPFD_CLOEXEC, 10);
    close(low);
    low = master;
    master = fcntl(low, F_DUPFD_CLOEXEC, 10);
    close(low);
    fcntl(master, F_SETFL, O_NONBLOCK);
    terminal = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
    notice = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    stop_pump = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    synced_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return slave >= 0 && master >= 0 && terminal >= 0 && notice >= 0 && stop_pump >= 0 && synced_event >= 0;
}

static void close_descriptors(void) {
    int *all[] = {&terminal, &master, &slave, &notice, &stop_pump, &synced_event};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i] >= 0) close(*all[i]);
        *all[i] = -1;
    }
}

// The cursor may be anywhere in its row. As many spaces as the row has columns end in this row if the cursor was in the first column. Otherwise they
// end in the next row.
static void begin_fresh_row(int columns) {
    char spaces[512];
    if (columns <= 0 || columns > (int)sizeof spaces) return;
    memset(spaces, ' ', sizeof spaces);
    write_all(terminal, spaces, (size_t)columns);
    write_all(terminal, "\r\x1b[K", 4);
}

bool ct_relay_begin(int descriptor) {
    if (is_active) return true;
    if (!open_descriptors(descriptor) || cplatform_start_thread(&pump_thread, pump, NULL) != 0) {
        close_descriptors();
        return false;
    }
    struct stat about;
    fstat(terminal, &about);
    handle_signals();
    ct_lock();
    begin_fresh_row(ct_columns(terminal));
    ct_unlock();
    is_active = true;
    for (int i = 1; i <= 2; i++) {
        if (!is_terminal(i, about.st_rdev)) continue;
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        dup2(slave, i);
    }
    static bool is_registered;
    if (!is_registered) is_registered = atexit(ct_relay_end) == 0;
    return true;
}

void ct_relay_end(void) {
    if (!is_active || cplatform_get_fork_count() != 0) return;  // a forked process has no pump
    fflush(stdout);
    synchronize(1000);
    for (int i = 1; i <= 2; i++) {
        if (saved[i] < 0) continue;
        dup2(saved[i], i);
        close(saved[i]);
        saved[i] = -1;
    }
    synchronize(1000);  // for threads that wrote at the same time
    if (!atomic_exchange(&is_active, false)) return;
    signal_event(stop_pump);
    // The exiting thread may be inside the prompt and hold the lock, for which the pump then waits.
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1;
    if (pthread_timedjoin_np(pump_thread, NULL, &end) == 0 && pthread_mutex_trylock(&lock) == 0) {
        ct_bottom_none();
        ct_unlock();
    }
    if (ct_changes_modes) tcsetattr(terminal, TCSADRAIN, &original);
    // The pseudo-terminal stays open until the process has ended, because its programs may still use it.
}

// MARK: a program on the terminal

void ct_lend(void) {
    ct_relay_sync();
    ct_lock();
    is_lent = true;
    ct_bottom_take_away();
    if (is_active && ct_changes_modes) tcsetattr(terminal, TCSANOW, &original);
    ct_unlock();
    if (is_active) signal_event(notice);
}

void ct_take_back(void) {
    ct_lock();
    is_lent = false;
    if (is_active) begin_fresh_row(ct_columns(terminal));
    at_row_start = true;
    draw_status();
    ct_unlock();
    if (!is_active) return;
    // The program got the signals of the terminal.
    on_change(SIGWINCH);
    on_change(SIGCONT);
}

bool ct_is_lent(void) { return is_lent; }

bool ct_is_foreground(void) { return tcgetpgrp(terminal) == getpgrp(); }
