/* sink.h - live outputs: what is notified of every begin and end of a Python function while the program runs, and of
 * calls and lines in between if it wants to.
 *
 * A sink is a shared object of its own, libpyhybrid_NAME.so, that exports one `struct emit_sink` under the name
 * EMIT_SINK_SYMBOL.  It is loaded when it is asked for, never unloaded, needs nothing of Python, and is the only place
 * that knows its foreign library.
 *
 * Context: open and look are called without the GIL; close, remark and wants in ordinary context.  begin, end, point
 * and thread are callbacks of sys.monitoring, with the GIL, so one at a time: they never wait.  flush is called on any
 * thread, without the GIL, also on several at once.  In a forked child nothing is called until open is called again,
 * whatever the parent's threads were in the midst of.
 */
#ifndef PYH_SINK_H
#define PYH_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EMIT_SINK_SYMBOL "pyhybrid_sink"
#define EMIT_SINKS 5 /* at once */

enum emit_kind {
    EMIT_START,
    EMIT_RESUME,
    EMIT_THROW,
    EMIT_RUNNING, /* it runs already, or goes on, without an event of its own */
    EMIT_RETURN,
    EMIT_YIELD,
    EMIT_UNWIND,
    EMIT_CUT_OFF, /* profiling ends or pauses, the function does not */
    EMIT_CALL,    /* a function is about to call something, whatever it is written in */
    EMIT_LINE,    /* a line of a function begins */
    N_EMIT_KINDS,
};
#define EMIT_BIT(kind) (1u << (kind))
#define EMIT_ENDS                                                                                  \
    (EMIT_BIT(EMIT_RETURN) | EMIT_BIT(EMIT_YIELD) | EMIT_BIT(EMIT_UNWIND) | EMIT_BIT(EMIT_CUT_OFF))
#define EMIT_BEGINS                                                                                \
    (EMIT_BIT(EMIT_START) | EMIT_BIT(EMIT_RESUME) | EMIT_BIT(EMIT_THROW) | EMIT_BIT(EMIT_RUNNING))
#define EMIT_TURNS (EMIT_BEGINS | EMIT_ENDS)
#define EMIT_POINTS (EMIT_BIT(EMIT_CALL) | EMIT_BIT(EMIT_LINE))
/* Wanted, beside kinds: turns of functions whose single calls are kept, and of no others. */
#define EMIT_OF_KEPT EMIT_BIT(N_EMIT_KINDS)

/* UTF-8; what could not be encoded is escaped. */
struct emit_names {
    const char *name, *qualname, *file;
};

/* A function or region; the same until the sinks are closed. */
struct emit_function {
    uint32_t id; /* from 0, dense */
    uint32_t line;
    bool is_region;          /* its file is empty */
    struct emit_names names; /* as they are */
    struct emit_names shown; /* for people: what a terminal would obey is escaped */
};

struct emit_thread {
    int tid;
    const char *name;       /* threading's, else the kernel's; escaped as `shown` */
    void *data[EMIT_SINKS]; /* by place of the sink: its thread_bytes, zeroed at first */
};

struct emit_turn {
    const struct emit_function *function;
    enum emit_kind kind;
    /* Its place in the thread's stack: larger than its caller's.  An end may come whose begin did not, and the other
     * way round; a begin at a place ends what was there and above it.  Of a point: its function's, or 0 if that is not
     * known (turns are not wanted). */
    uint32_t depth;
    bool is_kept;   /* single calls of the function are kept (kept_calls.h) */
    uint32_t line;  /* of LINE: the one that begins; else the function's first one */
    int32_t offset; /* of the instruction in the function's code, in bytes; -1: not known */
    /* UTF-8: the value that is returned or yielded, the exception that is thrown or raised, what is called.  NULL: not
     * known, or not wanted (`texts`, --emit-value).  Gone after the call. */
    const char *text;
};

struct emit_sink {
    size_t size;         /* of this structure */
    size_t thread_bytes; /* that it keeps for each thread */
    uint32_t texts;      /* a bit for each kind whose `text` it takes: it costs 20 to 150 ns */
    /* A bit for each kind of EMIT_TURNS of which it wants to know the event, and where.  Without that RESUME and THROW
     * are RUNNING, turns have no offset, nothing is written when it is full, and a turn costs 10 ns less. */
    uint32_t details;
    /* Begins anew.  `place` is the index of its own data[].  Returns 0 or -errno; `message` is one line for the user,
     * why it failed or what is still missing, empty at first. */
    int (*open)(uint32_t place, const char *argument, char *message, size_t message_bytes);
    /* The collector calls it every 10 ms, to look for what it has to.  May be NULL. */
    void (*look)(void);
    /* A bit for each kind that is wanted now, and EMIT_OF_KEPT; looked at every 10 ms.  With one kind of EMIT_TURNS all
     * of them are made, with none of them none is: a sink that wants lines alone costs no more than these. */
    uint32_t (*wants)(void);
    void (*thread)(const struct emit_thread *t); /* before its first event; may be NULL */
    void (*begin)(const struct emit_thread *t, const struct emit_turn *turn);
    void (*end)(const struct emit_thread *t, const struct emit_turn *turn);
    void (*point)(const struct emit_thread *t,
                  const struct emit_turn *turn); /* of EMIT_POINTS; may be NULL */
    /* A message of the program's, UTF-8 and not empty; on any thread that counts, with the GIL.  May be NULL. */
    void (*message)(const struct emit_thread *t, const char *text);
    bool (*is_full)(void); /* is flush to be called, before the next event?  May be NULL */
    /* Writes what it has; false: it could not all be written, after a moment or (!may_wait) at once.  May be NULL. */
    bool (*flush)(bool may_wait);
    /* At the end, before close: one line for the user on what was lost or never came, or none.  May be NULL. */
    void (*remark)(char *message, size_t message_bytes);
    void (*close)(void);
};

/* Returns whether `open`'s argument, WORD, WORD:REST or REST, has this word.  Then *argument is what is left, perhaps
 * nothing. */
static inline bool sink_argument_takes(const char **argument, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*argument, word, n) || ((*argument)[n] && (*argument)[n] != ':'))
        return false;
    *argument += (*argument)[n] ? n + 1 : n;
    return true;
}

#endif
