#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "CTerminal.h"
#include "CText.h"
#include "relay.h"

static EditLine *editor;
static History *history_list;
static FILE *output;
static ct_prompt_host host;
static locale_t text_locale;  // the thread's locale while libedit runs; scripts keep their own
static const char *prompt_text;
static struct termios raw;
static bool is_raw;  // whether `raw` is set for the line that is being read
static ct_prompt_end ending;
static char *last_line;
static char *completion, *choices;

enum { CONTROL_C = 3, QUOTE = 22 /* inserts the next key */, CONTROL_Z = 26, ESCAPE = 27, SOON = 20 /* milliseconds between bytes of one key */ };

// MARK: where the cursor is

typedef struct place {
    int row, column;
} place;

// libedit shows control characters as ^X, and pads a row that a wide character does not fit into.
static void advance(place *place, wchar_t character, int columns) {
    int width = wcwidth(character);
    if (character == L'\t') width = 8 - place->column % 8;
    if (width < 0) width = character < 0x20 || character == 0x7f ? 2 : 4;
    if (place->column + width > columns) {
        place->row++;
        place->column = 0;
    }
    place->column += width;
    if (place->column >= columns) {
        place->row++;
        place->column -= columns;
    }
}

static place place_after(const wchar_t *end, const LineInfoW *line, int columns) {
    place place = {0, 0};
    mbstate_t state = {0};
    const char *bytes = prompt_text;
    size_t left = strlen(bytes), count;
    wchar_t character;
    while (left > 0 && (count = mbrtowc(&character, bytes, left, &state)) > 0 && count < (size_t)-2) {
        advance(&place, character, columns);
        bytes += count;
        left -= count;
    }
    for (const wchar_t *next = line->buffer; next < end; next++) advance(&place, *next, columns);
    return place;
}

static int rows_to(bool end_of_line) {
    int columns = ct_columns(ct_terminal());
    const LineInfoW *line = el_wline(editor);
    return place_after(end_of_line ? line->lastchar : line->cursor, line, columns > 0 ? columns : 80).row;
}

// Moves the cursor behind the line. During a search, the text of the search is in a row below, which is erased.
static void go_to_end(void) {
    int columns = ct_columns(ct_terminal());
    const LineInfoW *line = el_wline(editor);
    size_t count = (size_t)(line->lastchar - line->buffer);
    const wchar_t *newline = wmemchr(line->buffer, L'\n', count);
    place end = place_after(newline != NULL ? newline : line->lastchar, line, columns > 0 ? columns : 80);
    char move[32];
    for (int rows = end.row - rows_to(false); rows > 0; rows--) ct_write("\x1b[B", 3);
    ct_write(move, (size_t)snprintf(move, sizeof move, "\x1b[%dG%s", end.column + 1, newline != NULL ? "\x1b[J" : ""));
}

// Moves to the row below and leaves the line as it is.
static void leave_line(const char *mark) {
    ct_forget_tail();
    go_to_end();
    ct_write(mark, strlen(mark));
    ct_write("\r\n", 2);
}

static void redraw(void) {
    ct_begin_row();
    el_set(editor, EL_REFRESH);
    fflush(output);
}

// libedit moves parts of rows, and does not count the columns of wide characters. So a line of several rows that has some is drawn anew.
static void mend_rows(void) {
    const LineInfoW *line = el_wline(editor);
    const wchar_t *next = line->buffer;
    while (next < line->lastchar && *next != L'\n' && wcwidth(*next) < 2) next++;
    if (next == line->lastchar || *next == L'\n' || rows_to(true) == 0) return;
    ct_bottom_is_prompt(rows_to(false));
    ct_bottom_take_away();
    redraw();
}

// MARK: waiting for a key

// Ctrl-C and Ctrl-Z are read as characters, so that they take effect in the order in which they were typed. Ctrl-C is a signal only while
// a script runs.
static void set_raw(bool has_signals) {
    if (ct_is_lent()) return;
    if (!is_raw) {
        tcgetattr(STDIN_FILENO, &raw);
        raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
        is_raw = true;
    }
    raw.c_lflag = has_signals ? raw.c_lflag | ISIG : raw.c_lflag & ~(tcflag_t)ISIG;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static void suspend(const struct termios *cooked) {
    ct_bottom_take_away();
    tcsetattr(STDIN_FILENO, TCSADRAIN, cooked);
    ct_unlock();
    raise(SIGTSTP);
    ct_lock();
    ct_was_continued = false;
    set_raw(false);
    ct_bottom_take_away();
}

static struct termios cooked;

// Handles the requests of signals and of the pump.
static void look_at_notice(void) {
    ct_clear_notice();
    if (atomic_exchange(&ct_was_continued, false)) set_raw(false);
    if (atomic_exchange(&ct_was_resized, false)) {
        ct_forget_tail();
        if (ct_bottom_is_visible()) {
            ct_bottom_is_prompt(rows_to(false));
            ct_bottom_take_away();
        }
        el_resize(editor);
    }
}

// Reads one byte at a time, because the bytes after the line may be for the script.
static int read_byte(unsigned char *byte) {
    ssize_t count = read(STDIN_FILENO, byte, 1);
    return count == 1 ? 1 : count < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
}

// Bytes that were read ahead, and are taken as they are.
static unsigned char ahead[8];
static size_t ahead_count;
static bool is_pasted;  // the terminal marks the beginning and the end of a pasted text

// Reads what follows an escape character as long as it may mark a pasted text. Returns whether it does.
static bool read_mark(void) {
    static const char begin[] = "\x1b[200~", end[] = "\x1b[201~";
    ahead[0] = ESCAPE;
    ahead_count = 1;
    while (ahead_count < sizeof begin - 1 && (memcmp(ahead, begin, ahead_count) == 0 || memcmp(ahead, end, ahead_count) == 0)) {
        struct pollfd event = {STDIN_FILENO, POLLIN, 0};
        if (poll(&event, 1, SOON) <= 0 || read_byte(&ahead[ahead_count]) <= 0) return false;
        ahead_count++;
    }
    bool is_begin = memcmp(ahead, begin, sizeof begin - 1) == 0;
    if (!is_begin && memcmp(ahead, end, sizeof end - 1) != 0) return false;
    is_pasted = is_begin;
    ahead_count = 0;
    return true;
}

static void drop_first_ahead(void) { memmove(ahead, ahead + 1, --ahead_count); }

// Adds a byte to a character. Returns true when it is complete.
static bool decode(unsigned char byte, wchar_t *character) {
    static unsigned int value;
    static int missing;
    if (missing > 0 && (byte & 0xC0) == 0x80) {
        value = value << 6 | (byte & 0x3F);
        *character = (wchar_t)value;
        return --missing == 0;
    }
    missing = byte >= 0xF0 && byte < 0xF8 ? 3 : byte >= 0xE0 && byte < 0xF0 ? 2 : byte >= 0xC0 && byte < 0xE0 ? 1 : 0;
    value = missing == 3 ? byte & 7 : missing == 2 ? byte & 15 : byte & 31;
    *character = byte < 0x80 ? byte : 0xFFFD;
    return missing == 0;
}

static int wake_host(void) {
    locale_t before = uselocale(LC_GLOBAL_LOCALE);
    // The lock keeps the terminal from being lent during a change of its modes.
    set_raw(true);
    ct_unlock();
    int answer = host.wake(host.context);
    ct_wake_on_interrupt();
    ct_lock();
    set_raw(false);
    uselocale(before);
    return answer;
}

// Waits until no program has the terminal, which gets the keys. Returns whether to leave the prompt. Called with the lock held.
static bool await_terminal(void) {
    bool leaves = false;
    locale_t before = uselocale(LC_GLOBAL_LOCALE);
    while (!leaves && ct_is_lent()) {
        ct_unlock();
        struct pollfd events[2] = {{host.descriptor, POLLIN, 0}, {ct_notice(), POLLIN, 0}};
        poll(events, 2, -1);
        ct_clear_notice();
        leaves = host.wake(host.context) == CT_LEAVE;
        ct_wake_on_interrupt();
        ct_lock();
    }
    uselocale(before);
    return leaves;
}

static int end_line(ct_prompt_end why) {
    ending = why;
    leave_line(why == CT_INTERRUPTED ? "^C" : "");
    return -1;
}

// Called by libedit, with the lock held.
static int get_key(EditLine *unused, wchar_t *character) {
    (void)unused;
    if (!is_raw) set_raw(false);
    fflush(output);
    mend_rows();
    if (ahead_count > 0) {
        *character = ahead[0];
        drop_first_ahead();
        return 1;
    }
    for (;;) {
        if (ct_is_lent()) {
            if (await_terminal()) return end_line(CT_LEFT);
            set_raw(false);
        }
        if (ct_bottom_is_visible() == false && ending != CT_LINE) redraw();
        ending = CT_END_OF_INPUT;
        ct_bottom_is_prompt(rows_to(false));
        ct_unlock();
        struct pollfd events[3] = {{STDIN_FILENO, POLLIN, 0}, {host.descriptor, POLLIN, 0}, {ct_notice(), POLLIN, 0}};
        int count = poll(events, 3, -1);
        ct_lock();
        if (count < 0 || events[2].revents != 0) look_at_notice();
        if (count < 0 || events[1].revents != 0 || events[2].revents != 0) {
            int answer = wake_host();
            if (!ct_bottom_is_visible() && answer != CT_GO_ON && !ct_is_lent()) redraw();
            if (answer == CT_CLEAR_LINE) return end_line(CT_INTERRUPTED);
            if (answer == CT_LEAVE) return end_line(CT_LEFT);
            continue;
        }
        unsigned char byte;
        int got = read_byte(&byte);
        if (got < 0) return end_line(CT_END_OF_INPUT);
        if (got == 0) continue;
        if (byte == CONTROL_C) {
            if (!ct_bottom_is_visible()) redraw();
            return end_line(CT_INTERRUPTED);
        }
        if (byte == CONTROL_Z) {
            suspend(&cooked);
            continue;
        }
        if (byte == ESCAPE && read_mark()) continue;
        if (byte == ESCAPE) drop_first_ahead();
        if (!decode(byte, character)) continue;
        // A tab in a pasted text is no request for completion.
        if (is_pasted && byte < ' ' && byte != '\n' && byte != '\r' && byte != ESCAPE) {
            ahead[ahead_count++] = byte;
            *character = QUOTE;
        }
        if (!ct_bottom_is_visible()) redraw();
        // libedit draws from here on.
        ending = CT_LINE;
        return 1;
    }
}

// MARK: completion

void ct_prompt_complete(const char *text, const char *lines) {
    free(completion);
    free(choices);
    completion = strdup(text);
    choices = strdup(lines);
}

static unsigned char complete(EditLine *unused, int key) {
    (void)unused;
    (void)key;
    const LineInfo *line = el_line(editor);
    char *before = strndup(line->buffer, (size_t)(line->cursor - line->buffer));
    if (before == NULL) return CC_ERROR;
    ct_prompt_complete("", "");
    locale_t locale = uselocale(LC_GLOBAL_LOCALE);
    host.complete(host.context, before);
    uselocale(locale);
    free(before);
    if (completion == NULL || choices == NULL) return CC_ERROR;
    if (*choices != '\0') {
        leave_line("");
        for (const char *next = choices; *next != '\0';) {
            size_t count = strcspn(next, "\n");
            ct_write(next, count);
            ct_write("\r\n", 2);
            next += count + (next[count] == '\n');
        }
        redraw();
    }
    if (*completion == '\0') return *choices != '\0' ? CC_NORM : CC_ERROR;
    return el_insertstr(editor, completion) == 0 ? CC_REFRESH : CC_ERROR;
}

// MARK: lines

static char *show_prompt(EditLine *unused) {
    (void)unused;
    return (char *)prompt_text;
}

static void bind_keys(void) {
    static const char *const keys[][2] = {
        {"^I", "opscript-complete"}, {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"},
        {"\\e[H", "ed-move-to-beg"}, {"\\eOH", "ed-move-to-beg"}, {"\\e[1~", "ed-move-to-beg"},
        {"\\e[F", "ed-move-to-end"}, {"\\eOF", "ed-move-to-end"}, {"\\e[4~", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5D", "ed-prev-word"}, {"\\e[1;5C", "em-next-word"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

bool ct_prompt_begin(const ct_prompt_host *the_host) {
    host = *the_host;
    text_locale = ctext_make_locale();
    int copy = fcntl(ct_terminal(), F_DUPFD_CLOEXEC, 10);
    output = copy >= 0 ? fdopen(copy, "w") : NULL;
    history_list = history_init();
    if (text_locale == NULL || output == NULL || history_list == NULL) return false;
    tcgetattr(STDIN_FILENO, &cooked);
    HistEvent event;
    history(history_list, &event, H_SETSIZE, 1000);
    history(history_list, &event, H_SETUNIQUE, 1);
    locale_t before = uselocale(text_locale);
    editor = el_init("opscript", stdin, output, output);
    if (editor != NULL) {
        el_set(editor, EL_SIGNAL, 0);
        el_set(editor, EL_EDITOR, "emacs");
        el_set(editor, EL_PROMPT, show_prompt);
        el_set(editor, EL_HIST, history, history_list);
        el_set(editor, EL_GETCFN, get_key);
        el_set(editor, EL_ADDFN, "opscript-complete", "completes names", complete);
        bind_keys();
        el_source(editor, NULL);
    }
    uselocale(before);
    return editor != NULL;
}

void ct_prompt_end_all(void) {
    if (editor != NULL) el_end(editor);
    if (history_list != NULL) history_end(history_list);
    if (output != NULL) fclose(output);
    editor = NULL;
    history_list = NULL;
    output = NULL;
}

void ct_prompt_remember(const char *line) {
    HistEvent event;
    locale_t before = uselocale(text_locale);
    history(history_list, &event, H_ENTER, line);
    uselocale(before);
}

ct_prompt_end ct_prompt_read(const char *prompt, const char **line) {
    fflush(stdout);
    ct_relay_sync();
    locale_t before = uselocale(text_locale);
    ct_lock();
    if (await_terminal()) {
        ct_unlock();
        uselocale(before);
        return CT_LEFT;
    }
    ct_begin_row();
    // Only the text after the last newline is part of the edited line.
    const char *newline = strrchr(prompt, '\n');
    if (newline != NULL) ct_write(prompt, (size_t)(newline - prompt) + 1);
    prompt_text = newline != NULL ? newline + 1 : prompt;
    if (atomic_exchange(&ct_was_resized, false)) el_resize(editor);
    ct_wake_on_interrupt();
    ct_changes_modes = true;
    is_raw = false;
    fputs("\x1b[?2004h", output);
    ending = CT_LINE;
    int count = 0;
    const char *read = el_gets(editor, &count);
    fflush(output);
    if (read == NULL && ending == CT_LINE) {
        // Ctrl-D: libedit leaves the cursor in the line.
        ending = CT_END_OF_INPUT;
        ct_write("\r\n", 2);
    }
    fputs("\x1b[?2004l", output);
    fflush(output);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
    ct_changes_modes = false;
    ct_bottom_is_prompt(0);
    ct_bottom_none();
    ct_unlock();
    uselocale(before);
    free(last_line);
    last_line = NULL;
    if (read == NULL || ending != CT_LINE) return ending;
    last_line = strndup(read, strcspn(read, "\n"));
    *line = last_line != NULL ? last_line : "";
    return CT_LINE;
}
