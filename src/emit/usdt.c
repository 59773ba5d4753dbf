/* The sink `usdt`: every event is a probe (probe.h), under three names.  `pyhybrid:` are the ones that are documented;
 * `pyusdt:` are those of the project of that name, with plain function names; `python:` are CPython's own as of 3.10, which
 * have each turn of a generator, and exceptions, as a call and a return.  Named regions have probes of their own.
 *
 * The probes of begins share a semaphore, and those of ends, since `python:` has one name for each of them. */
#include <errno.h>
#include <stdio.h>

#include "probe.h"
#include "sink.h"

PROBE_SEMAPHORE(usdt_begins);
PROBE_SEMAPHORE(usdt_ends);
PROBE_SEMAPHORE(usdt_calls);
PROBE_SEMAPHORE(usdt_lines);
PROBE_SEMAPHORE(usdt_regions);

/* Arguments, in their order. */
#define OURS "8@%[qualname] 8@%[file] -4@%[line] -4@%[offset]"
#define PYUSDT "8@%[name] 8@%[file] -4@%[line] -4@%[offset]"
#define PYTHON "8@%[file] 8@%[name] -4@%[line]"
#define TEXT " 8@%[text]"

#define SITE(function, notes)                                                                      \
    static __attribute__((noinline)) void function(const struct emit_function *f,                  \
                                                   const struct emit_turn *turn)                   \
    {                                                                                              \
        PROBE_SITE(notes, PROBE_POINTER(qualname, f->names.qualname),                              \
                   PROBE_POINTER(name, f->names.name), PROBE_POINTER(file, f->names.file),         \
                   PROBE_INT(line, turn->line), PROBE_INT(offset, turn->offset),                   \
                   PROBE_POINTER(text, turn->text ? turn->text : ""));                             \
    }

/* As `pyhybrid:` and `pyusdt:`. */
#define NOTES(name, semaphore, text)                                                               \
    PROBE_NOTE(pyhybrid, name, semaphore, OURS text)                                               \
    PROBE_NOTE(pyusdt, name, semaphore, PYUSDT text)
#define BEGIN(name, text)                                                                          \
    NOTES(name, usdt_begins, text) PROBE_NOTE(python, function__entry, usdt_begins, PYTHON)
#define END(name, text)                                                                            \
    NOTES(name, usdt_ends, text) PROBE_NOTE(python, function__return, usdt_ends, PYTHON)

SITE(start, BEGIN(PY_START, ""))
SITE(resume, BEGIN(PY_RESUME, ""))
SITE(thrown, BEGIN(PY_THROW, TEXT))
SITE(returned, END(PY_RETURN, TEXT))
SITE(yielded, END(PY_YIELD, TEXT))
SITE(unwound, END(PY_UNWIND, TEXT))
SITE(called, NOTES(CALL, usdt_calls, TEXT))
SITE(line_begins, NOTES(LINE, usdt_lines, "") PROBE_NOTE(python, line, usdt_lines, PYTHON))

SITE(region_begins, PROBE_NOTE(pyhybrid, REGION_BEGIN, usdt_regions, "8@%[name]"))
SITE(region_ends, PROBE_NOTE(pyhybrid, REGION_END, usdt_regions, "8@%[name]"))

#define BEGINS (EMIT_BIT(EMIT_START) | EMIT_BIT(EMIT_RESUME) | EMIT_BIT(EMIT_THROW))
#define ENDS (EMIT_BIT(EMIT_RETURN) | EMIT_BIT(EMIT_YIELD) | EMIT_BIT(EMIT_UNWIND))

static void fire(const struct emit_thread *t, const struct emit_turn *turn)
{
    static void (*const sites[N_EMIT_KINDS])(const struct emit_function *,
                                             const struct emit_turn *) = {
        [EMIT_START] = start,     [EMIT_RESUME] = resume,    [EMIT_THROW] = thrown,
        [EMIT_RETURN] = returned, [EMIT_YIELD] = yielded,    [EMIT_UNWIND] = unwound,
        [EMIT_CALL] = called,     [EMIT_LINE] = line_begins,
    };
    const struct emit_function *f = turn->function;
    (void)t;
    if (f->is_region)
        (EMIT_BIT(turn->kind) & EMIT_BEGINS ? region_begins : region_ends)(f, turn);
    else if (sites[turn->kind])
        sites[turn->kind](f, turn);
}

static int open_sink(uint32_t place, const char *argument, char *error, size_t error_bytes)
{
    (void)place;
    if (!*argument)
        return 0;
    snprintf(error, error_bytes, "it takes no argument (%s)", argument);
    return -EINVAL;
}

static uint32_t wants(void)
{
    return (usdt_begins ? BEGINS : 0) | (usdt_ends ? ENDS : 0) | (usdt_regions ? EMIT_TURNS : 0) |
           (usdt_calls ? EMIT_BIT(EMIT_CALL) : 0) | (usdt_lines ? EMIT_BIT(EMIT_LINE) : 0);
}

static void close_sink(void)
{
}

extern const struct emit_sink pyhybrid_sink __attribute__((visibility("default")));

const struct emit_sink pyhybrid_sink = {
    .size = sizeof(struct emit_sink),
    .details = EMIT_TURNS,
    .texts = ENDS | EMIT_BIT(EMIT_THROW) | EMIT_BIT(EMIT_CALL),
    .open = open_sink,
    .wants = wants,
    .begin = fire,
    .end = fire,
    .point = fire,
    .close = close_sink,
};
