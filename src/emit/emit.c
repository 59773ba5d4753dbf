#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "emit.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"
#include "map.h"
#include "names.h"
#include "value_text.h"

#define NAME_BYTES (EXACT_NAME_MAX * 10) /* escaped */

static struct {
    const struct emit_sink *ops;
    _Atomic uint32_t wanted;
} sinks[EMIT_SINKS];
static _Atomic uint32_t n_sinks;
static _Atomic uint32_t texts; /* the kinds whose text is wanted */
static _Atomic uint32_t detailed;
static _Atomic bool of_kept; /* of functions whose calls are not kept nobody wants to hear */
static enum emit_values values;
static void (*_Atomic on_change)(void); /* NULL: events are not ready to be changed */

/* Functions by the session's number, regions by theirs; all of them, to be freed. */
static const struct emit_function **functions, **regions, **all;
static size_t regions_bytes, all_bytes;
static uint32_t n_regions, n_all;

/* What sys.monitoring tells just now.  Nothing lets go of the GIL meanwhile. */
static struct {
    uint64_t frame; /* 0: nothing */
    enum emit_kind kind;
    PyObject *const *args;
    const char *text;
} event;

/* --- which sinks ---------------------------------------------------------------------------------- */

static PyObject *refuse(int error, const char *why)
{
    PyObject *value = Py_BuildValue("(is)", error, why);
    if (value)
        PyErr_SetObject(PyExc_OSError, value);
    Py_XDECREF(value);
    return NULL;
}

PyObject *emit_open(const char *path, const char *argument, enum emit_values of_values)
{
    char said[200] = "";
    if (n_sinks == EMIT_SINKS)
        return refuse(EINVAL, "there are too many at once");
    PyThreadState *state = PyEval_SaveThread(); /* the loader may wait for one that waits for it */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    PyEval_RestoreThread(state);
    if (!library)
        return refuse(ENOENT, dlerror());
    const struct emit_sink *ops = dlsym(library, EMIT_SINK_SYMBOL);
    if (!ops || ops->size != sizeof *ops)
        return refuse(ENOENT, "it is of another version");
    for (uint32_t i = 0; i < n_sinks; i++)
        if (sinks[i].ops == ops)
            return refuse(EINVAL, "it is asked for twice");
    state = PyEval_SaveThread();
    int code = ops->open(n_sinks, argument, said, sizeof said);
    PyEval_RestoreThread(state);
    if (code)
        return refuse(-code, *said ? said : strerror(-code));
    sinks[n_sinks].ops = ops;
    atomic_store(&sinks[n_sinks].wanted, 0);
    n_sinks++;
    values = of_values;
    return PyUnicode_DecodeFSDefault(said);
}

bool emit_is_open(void)
{
    return n_sinks;
}

uint32_t emit_wanted(void)
{
    uint32_t all_of_them = 0;
    for (uint32_t i = 0; i < n_sinks; i++)
        all_of_them |= atomic_load_explicit(&sinks[i].wanted, memory_order_relaxed);
    return all_of_them;
}

uint32_t emit_detailed(void)
{
    return atomic_load_explicit(&detailed, memory_order_relaxed);
}

static bool flush_all(bool may_wait)
{
    bool done = true;
    for (uint32_t i = 0; i < n_sinks; i++)
        if (sinks[i].ops->flush)
            done &= sinks[i].ops->flush(may_wait);
    return done;
}

static void forget_names(void)
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

static void flush_at_last(void)
{
    PyThreadState *state = PyEval_SaveThread();
    while (!flush_all(true))
        ; /* each waits for a moment */
    PyEval_RestoreThread(state);
}

PyObject *emit_remarks(void)
{
    flush_at_last();
    PyObject *remarks = PyList_New(0);
    for (uint32_t i = 0; remarks && i < n_sinks; i++) {
        char said[200] = "";
        if (sinks[i].ops->remark)
            sinks[i].ops->remark(said, sizeof said);
        PyObject *text = *said ? PyUnicode_DecodeFSDefault(said) : NULL;
        if (text)
            PyList_Append(remarks, text);
        Py_XDECREF(text);
    }
    return remarks;
}

void emit_close(void)
{
    atomic_store(&on_change, NULL);
    emit_settle();
    uint32_t n = n_sinks;
    if (!n)
        return;
    flush_at_last();
    n_sinks = 0;
    for (uint32_t i = 0; i < n; i++)
        sinks[i].ops->close();
    forget_names();
}

/* --- what they want ------------------------------------------------------------------------------- */

enum { NO_THREAD, RUNS, ENDED };
static _Atomic int changer_state;
static pthread_t changer;
static _Atomic uint64_t looked;

void emit_on_change(void (*changed)(void))
{
    atomic_store(&on_change, changed);
}

static void look(void)
{
    uint32_t with_text = 0, with_details = 0;
    bool of_others = false;
    for (uint32_t i = 0; i < n_sinks; i++) {
        uint32_t wanted = sinks[i].ops->wants();
        atomic_store_explicit(&sinks[i].wanted, wanted, memory_order_relaxed);
        of_others |= wanted && !(wanted & EMIT_OF_KEPT);
        with_text |= wanted & sinks[i].ops->texts;
        with_details |= wanted & (EMIT_POINTS | (sinks[i].ops->details ? EMIT_TURNS : 0));
    }
    atomic_store_explicit(&of_kept, !of_others, memory_order_relaxed);
    atomic_store_explicit(&texts, with_text, memory_order_relaxed);
    atomic_store_explicit(&detailed, with_details, memory_order_relaxed);
}

static uint64_t of_look(void)
{
    return (uint64_t)emit_detailed() << 32 | emit_wanted();
}

void emit_looked(void)
{
    look();
    atomic_store(&looked, of_look());
}

static void *change(void *unused)
{
    PyGILState_STATE state = PyGILState_Ensure();
    void (*changed)(void) = atomic_load(&on_change);
    if (changed)
        changed();
    PyGILState_Release(state);
    atomic_store(&changer_state, ENDED);
    return unused;
}

/* Events cannot be switched without the GIL, for which the collector does not wait. */
void emit_look(void)
{
    if (!n_sinks || !atomic_load(&on_change))
        return;
    flush_all(false);
    for (uint32_t i = 0; i < n_sinks; i++)
        if (sinks[i].ops->look)
            sinks[i].ops->look();
    look();
    if (atomic_load(&changer_state) == ENDED) {
        pthread_join(changer, NULL);
        atomic_store(&changer_state, NO_THREAD);
    }
    if (of_look() == atomic_load(&looked) || atomic_load(&changer_state) != NO_THREAD)
        return;
    atomic_store(&changer_state, RUNS);
    if (pthread_create(&changer, NULL, change, NULL)) /* with our signal mask: all are blocked */
        atomic_store(&changer_state, NO_THREAD);
    else
        pthread_setname_np(changer, "pyhybrid");
}

void emit_settle(void)
{
    if (atomic_load(&changer_state) == NO_THREAD)
        return;
    PyThreadState *state = PyEval_SaveThread();
    pthread_join(changer, NULL);
    PyEval_RestoreThread(state);
    atomic_store(&changer_state, NO_THREAD);
}

void emit_after_fork_child(void)
{
    n_sinks = 0;
    atomic_store(&on_change, NULL);
    atomic_store(&changer_state, NO_THREAD);
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
static inline const struct emit_function *numbered(uint64_t number, const PyCodeObject *code)
{
    const struct emit_function *known = functions ? functions[number] : NULL;
    return known || !code ? known : name_function(number, code);
}

static const struct emit_function *function_of(uint64_t word, const PyCodeObject *code)
{
    if (frame_tag(word) == PYH_TAG_REGION)
        return (uint32_t)word < n_regions ? regions[(uint32_t)word] : NULL;
    if (frame_tag(word) != PYH_TAG_FUNCTION)
        return NULL; /* the tree is full */
    return numbered(word & PYH_FUNCTION_MASK, code);
}

void emit_name_region(uint32_t number, const char *name, uint32_t length)
{
    if (!n_sinks || (number < n_regions && regions[number]) ||
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
    for (uint32_t i = 0; i < n_sinks; i++)
        bytes += (sinks[i].ops->thread_bytes + 7) & ~(size_t)7;
    struct emitted *e = map_memory(bytes);
    if (!e)
        return NULL;
    t->emitted = e;
    t->emitted_bytes = bytes;
    names_shown(e->name, sizeof e->name, t->name[0] ? t->name : t->comm);
    e->thread.tid = t->tid;
    e->thread.name = e->name;
    char *data = (char *)e->data;
    for (uint32_t i = 0; i < n_sinks; i++) {
        e->thread.data[i] = data;
        data += (sinks[i].ops->thread_bytes + 7) & ~(size_t)7;
        if (sinks[i].ops->thread)
            sinks[i].ops->thread(&e->thread);
    }
    return &e->thread;
}

static struct emit_thread *thread_of(struct exact_thread *t)
{
    return t->emitted ? &((struct emitted *)t->emitted)->thread : new_thread(t);
}

/* --- turns ---------------------------------------------------------------------------------------- */

static ALWAYS_INLINE void tell(struct exact_thread *t, const struct emit_turn *turn)
{
    uint32_t bit = EMIT_BIT(turn->kind);
    const struct emit_thread *thread = turn->function ? thread_of(t) : NULL;
    for (uint32_t i = 0; thread && i < n_sinks; i++) {
        uint32_t wanted = atomic_load_explicit(&sinks[i].wanted, memory_order_relaxed);
        if (!(wanted & bit) || (wanted & EMIT_OF_KEPT && !turn->is_kept))
            continue;
        const struct emit_sink *ops = sinks[i].ops;
        (bit & EMIT_BEGINS ? ops->begin : bit & EMIT_ENDS ? ops->end : ops->point)(thread, turn);
    }
}

static bool nobody_hears_of(const struct exact_frame *f)
{
    return atomic_load_explicit(&of_kept, memory_order_relaxed) && !exact_is_kept(f->node);
}

static uint32_t line_of(const struct emit_function *f)
{
    return f ? f->line : 0;
}

/* What the event says, if it is this turn's. */
static int32_t own_offset(bool own)
{
    int overflow; /* sets no exception */
    return own ? (int32_t)PyLong_AsLongAndOverflow(event.args[1], &overflow) : -1;
}

static bool is_of_event(const struct exact_frame *f, uint32_t kinds)
{
    return event.frame == f->frame && !(f->flags & EXACT_REGION) && EMIT_BIT(event.kind) & kinds;
}

void emit_begin(struct exact_thread *t, const struct exact_frame *s, bool is_new)
{
    if (nobody_hears_of(s))
        return;
    bool own = is_of_event(s, EMIT_BEGINS), is_region = s->flags & EXACT_REGION;
    const PyCodeObject *code =
        is_region ? NULL : (const PyCodeObject *)FRAME_CODE((const frame_t *)s->frame);
    const struct emit_function *function = function_of(s->node->word, code);
    tell(t, &(struct emit_turn){
                .function = function,
                .kind = is_new                            ? EMIT_START
                        : own && event.kind != EMIT_START ? event.kind
                                                          : EMIT_RUNNING,
                .depth = (uint32_t)(s - t->stack),
                .is_kept = exact_is_kept(s->node),
                .line = line_of(function),
                .offset = own_offset(own),
                .text = own ? event.text : NULL,
            });
}

/* The frame may be gone, unless it is the event's own. */
void emit_end(struct exact_thread *t, const struct exact_frame *f, enum emit_kind how)
{
    if (nobody_hears_of(f))
        return;
    bool own = is_of_event(f, EMIT_ENDS);
    const PyCodeObject *code = own ? (const PyCodeObject *)event.args[0] : NULL;
    const struct emit_function *function = function_of(f->node->word, code);
    tell(t, &(struct emit_turn){
                .function = function,
                .kind = how,
                .depth = (uint32_t)(f - t->stack),
                .is_kept = exact_is_kept(f->node),
                .line = line_of(function),
                .offset = own_offset(own),
                .text = own ? event.text : NULL,
            });
}

static bool any_is_full(void)
{
    for (uint32_t i = 0; i < n_sinks; i++)
        if (sinks[i].ops->is_full && sinks[i].ops->is_full())
            return true;
    return false;
}

void emit_make_room(void)
{
    if (!any_is_full())
        return;
    PyThreadState *state = PyEval_SaveThread();
    flush_all(true);
    PyEval_RestoreThread(state);
}

static bool text_is_wanted(enum emit_kind kind)
{
    return atomic_load_explicit(&texts, memory_order_relaxed) & EMIT_BIT(kind) && values;
}

/* The events that have one have it third. */
static const char *text_of(enum emit_kind kind, PyObject *const *args, char *buffer)
{
    if (!text_is_wanted(kind) || kind == EMIT_START || kind == EMIT_RESUME)
        return NULL;
    (values == EMIT_VALUE_REPR ? value_repr : value_text)(buffer, args[2]);
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
    bool has_text = kind == EMIT_CALL && text_is_wanted(kind);
    if (has_text)
        value_callable(buffer, args[2]);
    uint32_t offset = instruction_offset(code, FRAME_INSTRUCTION((const frame_t *)frame));
    tell(t, &(struct emit_turn){
                .function = function,
                .kind = kind,
                .depth = depth_of(t, frame),
                .line = kind == EMIT_LINE ? (uint32_t)PyLong_AsLong(args[1]) : line_of(function),
                .offset = (int32_t)(offset * sizeof(_Py_CODEUNIT)),
                .text = has_text ? buffer : NULL,
            });
}

void emit_message(struct exact_thread *t, const char *text)
{
    const struct emit_thread *thread = thread_of(t);
    for (uint32_t i = 0; thread && i < n_sinks; i++)
        if (sinks[i].ops->message &&
            atomic_load_explicit(&sinks[i].wanted, memory_order_relaxed) & EMIT_TURNS)
            sinks[i].ops->message(thread, text);
}
