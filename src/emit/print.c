/* The sink `print`: a line for each begin (`PY_START : library.py:436 -> _del_library`); or, as a tree, indented ones
 * for begins and ends, with times; or a line for each call and return of a function whose calls are kept.
 *
 * Lines are added to one buffer, by whoever has the GIL, and written without it: by the program's thread that filled it,
 * or by the collector a moment later.  So nobody waits for a reader with the GIL, and there is no limit to how long one
 * may take. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "own_fd.h"
#include "sink.h"

#define FULL (64u << 10)    /* so much is written at once */
#define CAPACITY (1u << 20) /* what is added while nobody could write */
#define WAIT_MS 50          /* for the reader, before signals are looked at */
#define DEPTH_MAX 8192      /* calls of a thread whose times are known */
#define INDENT_MAX 100
#define PLACE_WIDTH 12
#define THREAD_WIDTH 16

static struct buffer {
    char at[CAPACITY];
    size_t n;
} buffers[2], *filled = &buffers[0], *written = &buffers[1];
static size_t n_written;        /* of `written`, that are out */
static pthread_mutex_t adding;  /* of `filled`: briefly */
static pthread_mutex_t writing; /* of `written` and the file */
static struct own_fd out = {.fd = -1};
static _Atomic bool full, broken;
static _Atomic int write_error; /* an errno, why it is broken */
static _Atomic uint64_t n_lost;
static bool tree, announce, coloured, is_file;
static uint32_t own_place;

/* The calls of a thread that were printed and run. */
struct calls {
    uint32_t n;
    struct {
        uint32_t depth;
        uint64_t since_ns;
    } open[DEPTH_MAX];
};

/* --- writing -------------------------------------------------------------------------------------- */

/* As write(), but a reader that has gone sends no signal to the program. */
static ssize_t write_quietly(const char *bytes, size_t n)
{
    sigset_t pipe, before, pending;
    struct timespec at_once = {0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ssize_t done = write(out.fd, bytes, n);
    int error = errno;
    if (done < (ssize_t)n && !sigismember(&pending, SIGPIPE)) /* also where a part went out */
        sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return done;
}

/* False: for want of room, of which there was none for a moment, because of a signal, or the reader has gone.  The signals
 * of a program that waits are handled by the interpreter, where the caller returns to. */
static bool write_rest(bool may_wait)
{
    struct pollfd room = {.fd = out.fd, .events = POLLOUT};
    while (n_written < written->n && !atomic_load(&broken)) {
        size_t n = written->n - n_written;
        if (!is_file && poll(&room, 1, may_wait ? WAIT_MS : 0) <= 0)
            return false;
        if (!is_file && n > PIPE_BUF)
            n = PIPE_BUF; /* for so much there is room (pipe(7)) */
        ssize_t done =
            own_fd_is(&out) ? write_quietly(written->at + n_written, n) : (errno = EBADF, -1);
        if (done >= 0)
            n_written += (size_t)done;
        else if (errno == EINTR || errno == EAGAIN)
            return false;
        else {
            atomic_store(&write_error, errno);
            atomic_store(&broken, true);
        }
    }
    return true;
}

static void swap(void)
{
    pthread_mutex_lock(&adding);
    struct buffer *b = filled;
    filled = written;
    written = b;
    filled->n = 0;
    n_written = 0;
    atomic_store_explicit(&full, false, memory_order_relaxed);
    pthread_mutex_unlock(&adding);
}

static bool flush(bool may_wait)
{
    if (may_wait)
        pthread_mutex_lock(&writing);
    else if (pthread_mutex_trylock(&writing))
        return false;
    bool done = write_rest(may_wait);
    if (done) {
        swap();
        done = write_rest(may_wait);
    }
    pthread_mutex_unlock(&writing);
    return done;
}

static bool is_full(void)
{
    return atomic_load_explicit(&full, memory_order_relaxed) && !atomic_load(&broken);
}

/* --- lines ---------------------------------------------------------------------------------------- */

static char *put(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n);
    return to + n;
}

static char *put_number(char *to, uint32_t n)
{
    char digits[10], *d = digits + sizeof digits;
    do
        *--d = (char)('0' + n % 10);
    while (n /= 10);
    size_t length = (size_t)(digits + sizeof digits - d);
    memcpy(to, d, length);
    return to + length;
}

static char *put_place(char *to, const struct emit_function *f)
{
    const char *base = strrchr(f->shown.file, '/');
    to = put(to, base ? base + 1 : f->shown.file);
    *to++ = ':';
    return put_number(to, f->line);
}

static char *put_colour(char *to, const char *code)
{
    return coloured ? put(put(put(to, "\033["), code), "m") : to;
}

static char *put_padded(char *to, const char *text, size_t width)
{
    char *end = put(to, text);
    while (end < to + width)
        *end++ = ' ';
    return end;
}

/* Where a line of at most `bytes` goes; NULL: there is no room.  put_end follows. */
static char *begin_line(size_t bytes)
{
    pthread_mutex_lock(&adding);
    if (filled->n + bytes <= CAPACITY)
        return filled->at + filled->n;
    n_lost++;
    pthread_mutex_unlock(&adding);
    return NULL;
}

static void end_line(char *to)
{
    *to++ = '\n';
    filled->n = (size_t)(to - filled->at);
    if (filled->n >= FULL)
        atomic_store_explicit(&full, true, memory_order_relaxed);
    pthread_mutex_unlock(&adding);
}

static size_t most(const struct emit_thread *t, const struct emit_function *f)
{
    return strlen(t->name) + strlen(f->shown.qualname) + strlen(f->shown.file) + 2 * INDENT_MAX +
           160;
}

static void print_begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    static const char *const words[] = {"PY_START : ", "PY_RESUME : ", "PY_THROW : "};
    const struct emit_function *f = turn->function;
    char *to = begin_line(most(t, f));
    if (!to)
        return;
    to = put(to, f->is_region ? "REGION : " : words[turn->kind]);
    if (!f->is_region)
        to = put(put_place(to, f), " -> ");
    end_line(put(to, f->shown.name));
}

/* How many of them the one at this depth is within, which it leaves. */
static uint32_t leave_down_to(struct calls *c, uint32_t depth)
{
    while (c->n && c->open[c->n - 1].depth >= depth)
        c->n--;
    return c->n;
}

static char *put_margin(char *to, const char *time, const struct emit_thread *t, uint32_t n)
{
    to = put_padded(put_colour(to, "33"), time, PLACE_WIDTH);
    to = put_padded(put_colour(to, "36"), t->name, THREAD_WIDTH);
    to = put(put_colour(to, "0"), " ");
    for (uint32_t i = 0; i < n && i < INDENT_MAX; i++)
        to = put(to, "  ");
    return to;
}

static void tree_begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    static const char *const words[] = {"", " (resumed)", " (thrown into)", " (running)"};
    const struct emit_function *f = turn->function;
    struct calls *c = t->data[own_place];
    uint32_t n = leave_down_to(c, turn->depth);
    if (n < DEPTH_MAX) {
        c->open[n].depth = turn->depth;
        c->open[n].since_ns = clock_now_ns();
        c->n++;
    }
    char *to = begin_line(most(t, f));
    if (!to)
        return;
    to = put_margin(to, "", t, n);
    to = put(put_colour(to, "1"), f->is_region ? "[" : "");
    to = put(put(to, f->shown.qualname), f->is_region ? "]" : "");
    to = put_colour(to, "0");
    if (!f->is_region)
        to = put(put_place(put(to, " ("), f), ")");
    end_line(put(put(to, words[turn->kind]), " {"));
}

static void write_time(char *text, size_t size, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double time = (double)ns;
    int unit = 0;
    while (time >= 1000 && unit < 3) {
        time /= 1000;
        unit++;
    }
    snprintf(text, size, "%8.*f %s", unit ? 3 : 0, time, units[unit]);
}

static void tree_end(const struct emit_thread *t, const struct emit_turn *turn)
{
    static const char *const words[] = {"", " (yielded)", " (raised)", " (still runs)"};
    uint64_t now = clock_now_ns();
    const struct emit_function *f = turn->function;
    struct calls *c = t->data[own_place];
    char time[32] = "";
    leave_down_to(c, turn->depth + 1);
    if (c->n && c->open[c->n - 1].depth == turn->depth)
        write_time(time, sizeof time, now - c->open[--c->n].since_ns);
    char *to = begin_line(most(t, f));
    if (!to)
        return;
    to = put(put_margin(to, time, t, c->n), f->is_region ? "} [" : "} ");
    to = put(put(to, f->shown.qualname), f->is_region ? "]" : "");
    end_line(put(to, words[turn->kind - EMIT_RETURN]));
}

static void put_announcement(const struct emit_thread *t, const struct emit_turn *turn,
                             const char *event)
{
    char *to = begin_line(most(t, turn->function));
    if (!to)
        return;
    to = put(put(to, "Function "), turn->function->shown.qualname);
    end_line(put(put(put(to, " is being traced for event "), event), "!"));
}

static void begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    if (!announce)
        (tree ? tree_begin : print_begin)(t, turn);
    else if (turn->kind == EMIT_START)
        put_announcement(t, turn, "call");
}

static void end(const struct emit_thread *t, const struct emit_turn *turn)
{
    if (!announce)
        tree_end(t, turn);
    else if (turn->kind == EMIT_RETURN)
        put_announcement(t, turn, "return");
    else if (turn->kind == EMIT_UNWIND)
        put_announcement(t, turn, "exception");
}

/* --- open and close ------------------------------------------------------------------------------- */

static bool is_terminal(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(out.fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static int open_file(const char *path)
{
    struct rlimit files = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    int floor = files.rlim_cur / 2 < 256 ? (int)files.rlim_cur / 2 : 256;
    if (!*path)
        return own_fd_duplicate(&out, 1, floor);
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
    return own_fd_keep(&out, open(path, flags, 0666), floor);
}

/* tree, tree:FILE, announce, announce:FILE, FILE or nothing. */
static int open_sink(uint32_t place, const char *argument, char *error, size_t error_bytes)
{
    pthread_mutex_init(&adding, NULL); /* a fork may have left them locked */
    pthread_mutex_init(&writing, NULL);
    filled->n = written->n = n_written = 0;
    full = broken = false;
    write_error = 0;
    n_lost = 0;
    own_place = place;
    tree = sink_argument_takes(&argument, "tree");
    announce = !tree && sink_argument_takes(&argument, "announce");
    int code = open_file(argument);
    struct stat st;
    is_file = !code && !fstat(out.fd, &st) && S_ISREG(st.st_mode);
    if (code)
        snprintf(error, error_bytes, "%s: %s", *argument ? argument : "standard output",
                 strerror(-code));
    coloured = !code && is_terminal();
    return code;
}

static uint32_t wants(void)
{
    if (atomic_load(&broken))
        return 0;
    uint32_t begins = EMIT_BIT(EMIT_START) | EMIT_BIT(EMIT_RESUME) | EMIT_BIT(EMIT_THROW);
    if (announce)
        return EMIT_BEGINS | EMIT_ENDS | EMIT_OF_KEPT;
    return tree ? EMIT_BEGINS | EMIT_ENDS : begins;
}

/* A reader that has gone wanted no more. */
static void remark(char *message, size_t bytes)
{
    int error = atomic_load(&write_error);
    if (error && error != EPIPE)
        snprintf(message, bytes, "the live output print ended early: %s", strerror(error));
}

static void close_sink(void)
{
    if (n_lost) {
        char line[64];
        int n =
            snprintf(line, sizeof line, "[%llu lines more, lost]\n", (unsigned long long)n_lost);
        write_quietly(line, (size_t)n);
    }
    pthread_mutex_lock(&writing);
    own_fd_close(&out);
    atomic_store(&broken, true);
    pthread_mutex_unlock(&writing);
}

extern const struct emit_sink pyhybrid_sink __attribute__((visibility("default")));

const struct emit_sink pyhybrid_sink = {
    .size = sizeof(struct emit_sink),
    .details = EMIT_TURNS,
    .thread_bytes = sizeof(struct calls),
    .open = open_sink,
    .wants = wants,
    .begin = begin,
    .end = end,
    .is_full = is_full,
    .flush = flush,
    .remark = remark,
    .close = close_sink,
};
