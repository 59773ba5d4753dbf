/* What sinks are called with: turns of functions and regions, points within them, and their names. */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "open_sinks.h"

#include <string.h>

#include "compiler.h"
#include "map.h"
#include "names.h"
#include "value_text.h"

#define NAME_BYTES (EXACT_NAME_MAX * 10) /* escaped */

/* Functions by the session's number, regions by theirs; all of them, to be freed. */
static const struct emit_function **functions, **regions, **all;
static size_t regions_bytes, all_bytes;
static uint32_t n_regions, n_all;

/* The present event of sys.monitoring.  Nothing lets go of the GIL meanwhile. */
static struct {
    uint64_t frame; /* 0: nothing */
    enum emit_kind kind;
    PyObject *const *args;
    const char *text;
} event;

void emit_forget_event(void)
{
    event.frame = 0;
}

/* --- names ---------------------------------------------------------------------------------------- */

static const struct emit_function *keep(const struct emit_function *f)
{
    if (f && map_memory_grow(&all, &all_bytes, n_all + 1, sizeof *all))
        return all[n_all++] = f;
    names_free(f);
    return NULL;
}

void emit_forget_names(void)
{
    for (uint32_t i = 0; i < n_all; i++)
        names_free(all[i]);
    map_memory_free(functions, CODES_NUMBERS * sizeof *functions);
    map_memory_free(regions, regions_bytes);
    map_memory_free(all, all_bytes);
    functions = regions = all = NULL;
    regions_bytes = all_bytes = 0;
    n_regions = n_all = 0;
}

static __attribute__((noinline)) const struct emit_function *name_function(uint64_t number,
                                                                           const PyCodeObject *code)
{
    if (!functions && !(functions = map_memory(CODES_NUMBERS * sizeof *functions)))
        return NULL;
    PyObject *error = PyErr_GetRaisedException();
    functions[number] = keep(names_of_code(code, n_all));
    PyErr_SetRaisedException(error);
    return functions[number];
}

/* `number`: of a function; `code`: one of its, alive; NULL: there is none at hand. */
static ALWAYS_INLINE const struct emit_function *numbered(uint64_t number, const PyCodeObject *code)
{
    const struct emit_function *known = functions ? functions[number] : NULL;
    return LIKELY(known) || !code ? known : name_function(number, code);
}

/* NULL: no sink gets it (the tree is full). */
static ALWAYS_INLINE const struct emit_function *function_of(uint64_t word,
                                                             const PyCodeObject *code)
{
    if (LIKELY(frame_tag(word) == PYH_TAG_FUNCTION))
        return numbered(word & PYH_FUNCTION_MASK, code);
    bool is_known = frame_tag(word) == PYH_TAG_REGION && (uint32_t)word < n_regions;
    return is_known ? regions[(uint32_t)word] : NULL;
}

void emit_name_region(uint32_t number, const char *name, uint32_t length)
{
    if (!open_sinks.n || (number < n_regions && regions[number]) ||
        !map_memory_grow(&regions, &regions_bytes, number + 1, sizeof *regions))
        return;
    regions[number] = keep(names_of_region(name, length, n_all));
    if (n_regions <= number)
        n_regions = number + 1;
}

/* What sinks keep for it follows. */
struct emitted {
    struct emit_thread thread;
    char name[NAME_BYTES];
    uint64_t data[];
};

static struct emit_thread *new_thread(struct exact_thread *t)
{
    size_t bytes = sizeof(struct emitted);
    for (uint32_t i = 0; i < open_sinks.n; i++)
        bytes += (open_sinks.sink[i].ops->thread_bytes + 7) & ~(size_t)7;
    struct emitted *e = map_memory(bytes);
    if (!e)
        return NULL;
    t->emitted = e;
    t->emitted_bytes = bytes;
    const char *name = t->tid == getpid() ? "MainThread" : t->comm; /* as `threading` calls it */
    names_shown(e->name, sizeof e->name, t->name[0] ? t->name : name);
    e->thread.tid = t->tid;
    e->thread.name = e->name;
    char *data = (char *)e->data;
    for (uint32_t i = 0; i < open_sinks.n; i++) {
        e->thread.data[i] = data;
        data += (open_sinks.sink[i].ops->thread_bytes + 7) & ~(size_t)7;
        if (open_sinks.sink[i].ops->thread)
            open_sinks.sink[i].ops->thread(&e->thread);
    }
    return &e->thread;
}

static ALWAYS_INLINE const struct emit_thread *known_thread(struct exact_thread *t)
{
    return t->emitted ? &((struct emitted *)t->emitted)->thread : new_thread(t);
}

/* --- turns ---------------------------------------------------------------------------------------- */

typedef void sink_callback(const struct emit_thread *thread, const struct emit_turn *turn);

/* `turn` is of one of `kinds`, all of which go to one function of a sink's. */
static ALWAYS_INLINE void notify_one(uint32_t place, const struct emit_thread *thread,
                                     const struct emit_turn *turn, uint32_t kinds)
{
    uint32_t wanted = atomic_load_explicit(&open_sinks.sink[place].wanted, memory_order_relaxed);
    if (!(wanted & EMIT_BIT(turn->kind)) || (wanted & EMIT_OF_KEPT && !turn->is_kept))
        return;
    const struct emit_sink *ops = open_sinks.sink[place].ops;
    sink_callback *notify = kinds == EMIT_BEGINS ? ops->begin
                            : kinds == EMIT_ENDS ? ops->end
                                                 : ops->point;
    notify(thread, turn);
}

static void notify_all(struct exact_thread *t, const struct emit_turn *turn, uint32_t kinds)
{
    const struct emit_thread *thread = known_thread(t);
    for (uint32_t i = 0; thread && i < open_sinks.n; i++)
        notify_one(i, thread, turn, kinds);
}

static ALWAYS_INLINE bool nobody_wants(const struct exact_frame *f)
{
    return atomic_load_explicit(&open_sinks.of_kept, memory_order_relaxed) &&
           !exact_is_kept(f->node);
}

/* Is the present event the begin, or end, of this turn? */
static ALWAYS_INLINE bool is_of_event(const struct exact_frame *f, uint32_t kinds)
{
    return event.frame == f->frame && !(f->flags & EXACT_REGION) && EMIT_BIT(event.kind) & kinds;
}

/* Adds what the event has of it. */
static __attribute__((noinline)) void add_event(struct emit_turn *turn)
{
    int overflow; /* sets no exception */
    turn->offset = (int32_t)PyLong_AsLongAndOverflow(event.args[1], &overflow);
    turn->text = event.text;
}

static ALWAYS_INLINE struct emit_turn turn_of(const struct exact_thread *t,
                                              const struct exact_frame *f,
                                              const struct emit_function *function,
                                              enum emit_kind kind)
{
    return (struct emit_turn){.function = function,
                              .kind = kind,
                              .depth = (uint32_t)(f - t->stack),
                              .is_kept = exact_is_kept(f->node),
                              .line = function->line,
                              .offset = -1};
}

static __attribute__((noinline)) void begin(struct exact_thread *t, const struct exact_frame *s,
                                            bool is_new)
{
    if (nobody_wants(s))
        return;
    const PyCodeObject *code = s->flags & EXACT_REGION
                                   ? NULL
                                   : (const PyCodeObject *)FRAME_CODE((const frame_t *)s->frame);
    const struct emit_function *function = function_of(s->node->word, code);
    if (!function)
        return;
    struct emit_turn turn = turn_of(t, s, function, is_new ? EMIT_START : EMIT_RUNNING);
    if (is_of_event(s, EMIT_BEGINS)) {
        if (!is_new && event.kind != EMIT_START)
            turn.kind = event.kind;
        add_event(&turn);
    }
    notify_all(t, &turn, EMIT_BEGINS);
}

/* The frame may be gone, unless it is the event's own. */
static __attribute__((noinline)) void end(struct exact_thread *t, const struct exact_frame *f,
                                          enum emit_kind how)
{
    if (nobody_wants(f))
        return;
    bool own = is_of_event(f, EMIT_ENDS);
    const PyCodeObject *code = own ? (const PyCodeObject *)event.args[0] : NULL;
    const struct emit_function *function = function_of(f->node->word, code);
    if (!function)
        return;
    struct emit_turn turn = turn_of(t, f, function, how);
    if (own)
        add_event(&turn);
    notify_all(t, &turn, EMIT_ENDS);
}

/* The usual case, and nothing to spill registers for: one sink, which takes no details, gets a function that it and the
 * thread have a name for.  NULL: it is another case. */
static ALWAYS_INLINE const struct emit_function *plain(const struct exact_thread *t,
                                                       const struct exact_frame *f)
{
    uint64_t word = f->node->word;
    bool is_plain = t->emitted && functions && event.frame != f->frame &&
                    frame_tag(word) == PYH_TAG_FUNCTION &&
                    atomic_load_explicit(&open_sinks.n, memory_order_relaxed) == 1;
    return LIKELY(is_plain) ? functions[word & PYH_FUNCTION_MASK] : NULL;
}

void emit_begin(struct exact_thread *t, const struct exact_frame *s, bool is_new)
{
    const struct emit_function *function = plain(t, s);
    if (!LIKELY(function)) {
        begin(t, s, is_new);
        return;
    }
    struct emit_turn turn = turn_of(t, s, function, is_new ? EMIT_START : EMIT_RUNNING);
    notify_one(0, known_thread(t), &turn, EMIT_BEGINS);
}

void emit_end(struct exact_thread *t, const struct exact_frame *f, enum emit_kind how)
{
    const struct emit_function *function = plain(t, f);
    if (!LIKELY(function)) {
        end(t, f, how);
        return;
    }
    struct emit_turn turn = turn_of(t, f, function, how);
    notify_one(0, known_thread(t), &turn, EMIT_ENDS);
}

static bool any_is_full(void)
{
    for (uint32_t i = 0; i < open_sinks.n; i++)
        if (open_sinks.sink[i].ops->is_full && open_sinks.sink[i].ops->is_full())
            return true;
    return false;
}

void emit_make_room(void)
{
    if (!any_is_full())
        return;
    PyThreadState *state = PyEval_SaveThread();
    emit_flush(true);
    PyEval_RestoreThread(state);
}

static bool text_is_wanted(enum emit_kind kind)
{
    return atomic_load_explicit(&open_sinks.texts, memory_order_relaxed) & EMIT_BIT(kind) &&
           open_sinks.values;
}

/* The events that have one have it third. */
static const char *text_of(enum emit_kind kind, PyObject *const *args, char *buffer)
{
    if (!text_is_wanted(kind) || kind == EMIT_START || kind == EMIT_RESUME)
        return NULL;
    (open_sinks.values == EMIT_VALUE_REPR ? value_repr : value_text)(buffer, args[2]);
    return buffer;
}

PyObject *emit_event(enum emit_kind kind, uint64_t frame, PyObject *const *args,
                     vectorcallfunc then)
{
    char buffer[VALUE_TEXT_BYTES];
    event.text = text_of(kind, args, buffer); /* first: others may come in here meanwhile */
    event.kind = kind;
    event.args = args;
    event.frame = frame;
    PyObject *answer = then(NULL, args, 0, NULL);
    event.frame = 0;
    emit_make_room();
    return answer;
}

/* --- points --------------------------------------------------------------------------------------- */

/* 0: it does not stand where it would as the innermost one. */
static uint32_t depth_of(const struct exact_thread *t, uint64_t frame)
{
    uint32_t i = t->depth;
    while (i && t->stack[i - 1].frame == frame && t->stack[i - 1].flags & EXACT_REGION)
        i--;
    return i && t->stack[i - 1].frame == frame ? i - 1 : 0;
}

void emit_point(struct exact *x, struct exact_thread *t, uint64_t frame, enum emit_kind kind,
                PyObject *const *args)
{
    char buffer[VALUE_TEXT_BYTES];
    uint64_t code = (uint64_t)args[0], id = exact_intern_code(x, code);
    if (!id)
        return;
    const struct emit_function *function =
        numbered(codes_numbers(x->codes, id).function, (const PyCodeObject *)code);
    if (!function)
        return;
    bool has_text = kind == EMIT_CALL && text_is_wanted(kind);
    if (has_text)
        value_callable(buffer, args[2]);
    uint32_t offset = instruction_offset(code, FRAME_INSTRUCTION((const frame_t *)frame));
    const struct emit_turn turn = {
        .function = function,
        .kind = kind,
        .depth = depth_of(t, frame),
        .line = kind == EMIT_LINE ? (uint32_t)PyLong_AsLong(args[1]) : function->line,
        .offset = (int32_t)(offset * sizeof(_Py_CODEUNIT)),
        .text = has_text ? buffer : NULL,
    };
    notify_all(t, &turn, EMIT_POINTS);
}

void emit_message(struct exact_thread *t, const char *text)
{
    const struct emit_thread *thread = known_thread(t);
    for (uint32_t i = 0; thread && i < open_sinks.n; i++)
        if (open_sinks.sink[i].ops->message &&
            atomic_load_explicit(&open_sinks.sink[i].wanted, memory_order_relaxed) & EMIT_TURNS)
            open_sinks.sink[i].ops->message(thread, text);
}
