/* tasks.c - which call made a task of asyncio's, and what its turns add to whose time.
 *
 * A task is made by its type, in C: by whoever, with or without uvloop, and where it runs at once (eager tasks).  So
 * what initializes the type's objects is ours while there is a session, and calls what it was; nothing that Python code
 * can see of the type is another one.  No object refers to anything of ours, and none is kept: a task's coroutine is known by the address of its frame until it ends.
 *
 * Source: Modules/_asynciomodule.c, Objects/typeobject.c (type_call) of CPython 3.12 to 3.15.
 */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "tasks.h"

#include <string.h>

#include "map.h"
#include "shadow_stack.h"

#define BESIDE_MAX 32 /* [task]s on a path: further ones stand beside the innermost */
#define MAKERS_FEW 1024

static bool awaited;            /* asyncio is not there yet */
static PyTypeObject *task_type; /* a reference; NULL: not found yet */
static initproc initialize;     /* what made an object of it a task before us */
static PyWrapperDescrObject
    *wrapper; /* `Task.__init__`, a reference: by it subclasses call that; NULL: it is another */
static PyObject *asyncio_folder; /* the files of asyncio begin with it; NULL: not known */

/* By frame of a coroutine: the thread's serial and, below it, the [task]'s node; 0: it has ended.  Nothing reports where
 * a coroutine dies that never ran, or that a filter leaves out; the next one at its address has a value of its own. */
static struct map makers;
static size_t n_makers; /* that are not 0 */
#define NODE_BITS (EXACT_CHUNK_BITS + EXACT_CHUNKS)

static bool is_task(const struct exact_node *n)
{
    return n->word == frame_pseudo(PSEUDO_TASK);
}

/* Does a filter leave out what runs in the turn there? */
static bool is_left_out(const struct exact_frame *s)
{
    return (s->flags & (EXACT_TASK | EXACT_RECORDED)) == EXACT_TASK;
}

static struct exact_node *node_of(const struct exact_thread *t, uint32_t id)
{
    return id ? (struct exact_node *)exact_read_node(t, id) : (struct exact_node *)&t->root;
}

/* --- who made it ------------------------------------------------------------------------------------ */

static bool is_asyncios(const struct exact_frame *s)
{
    Py_ssize_t folder, file;
    const char *begin = asyncio_folder ? PyUnicode_AsUTF8AndSize(asyncio_folder, &folder) : NULL;
    const PyCodeObject *code = (const PyCodeObject *)FRAME_CODE((const frame_t *)s->frame);
    const char *name = begin ? PyUnicode_AsUTF8AndSize(code->co_filename, &file) : NULL;
    if (!name)
        PyErr_Clear();
    return name && file > folder && !memcmp(name, begin, (size_t)folder);
}

/* Where the [task] is to be of what the top of the stack makes: below asyncio's own functions around. */
static struct exact_node *maker(const struct exact_thread *t)
{
    struct exact_node *node = t->stack[t->depth - 1].node;
    for (uint32_t i = t->depth; i--;) {
        const struct exact_frame *s = &t->stack[i];
        if (s->flags & EXACT_REGION || frame_tag(s->node->word) != PYH_TAG_FUNCTION ||
            !is_asyncios(s))
            break;
        node = node_of(t, s->node->parent);
        if (s->flags & EXACT_TASK)
            break;
    }
    return is_task(node) ? node_of(t, node->parent) : node; /* made by asyncio's own coroutine */
}

/* The [task] of tasks that run `function` and are made by `node`. */
static struct exact_node *task_below(struct exact *x, struct exact_thread *t,
                                     struct exact_node *node, uint32_t function)
{
    int n = 0;
    struct exact_node *innermost = NULL;
    const struct exact_node *below = NULL;
    for (struct exact_node *n_up = node;; below = n_up, n_up = node_of(t, n_up->parent)) {
        if (is_task(n_up)) {
            if (below && (below->word & PYH_FUNCTION_MASK) == function)
                return n_up;
            innermost = n++ ? innermost : n_up;
        }
        if (!n_up->id)
            break;
    }
    return n < BESIDE_MAX ? exact_child(x, t, node, frame_pseudo(PSEUDO_TASK)) : innermost;
}

/* Keeps those that are alive: places of the map are for good. */
static void sweep(void)
{
    struct map all = makers;
    makers = (struct map){0};
    n_makers = 0;
    for (size_t i = 0; i <= all.mask; i++)
        if (all.slots[2 * i] && all.slots[2 * i + 1]) {
            uint64_t *place = map_put(&makers, all.slots[2 * i]);
            if (place) {
                *place = all.slots[2 * i + 1];
                n_makers++;
            }
        }
    map_clear(&all);
}

static void remember(uint64_t frame, uint64_t value)
{
    if (makers.n > MAKERS_FEW && makers.n > 4 * n_makers)
        sweep();
    uint64_t *place = map_put(&makers, frame);
    if (!place)
        return;
    n_makers += !*place;
    *place = value;
}

static void forget(uint64_t frame)
{
    uint64_t *place = map_get(&makers, frame);
    if (!place || !*place)
        return;
    *place = 0;
    n_makers--;
}

/* The frame of a coroutine that can run; 0: it is none. */
static uint64_t frame_of(PyObject *coroutine)
{
    if (!coroutine || !PyCoro_CheckExact(coroutine))
        return 0;
    PyCoroObject *c = (PyCoroObject *)coroutine;
    return c->cr_frame_state < FRAME_CLEARED ? (uint64_t)&c->cr_iframe : 0;
}

/* A task is being made of the coroutine whose frame this is, by the innermost function. */
static void note(struct exact *x, uint64_t frame)
{
    forget(frame);
    const frame_t *f = current_frame();
    while (f && FRAME_IS_ENTRY(f))
        f = f->previous;
    struct exact_thread *t = f ? shadow_record(x) : NULL;
    uint64_t id =
        t && shadow_on_top(x, t, f) ? exact_intern_code(x, FRAME_CODE((const frame_t *)frame)) : 0;
    uint32_t function = (uint32_t)codes_numbers(x->codes, id).function;
    struct exact_node *task = function ? task_below(x, t, maker(t), function) : NULL;
    if (task && is_task(task))
        remember(frame, t->serial << NODE_BITS | task->id);
}

static int on_task(PyObject *task, PyObject *args, PyObject *names)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    uint64_t frame = 0;
    if (x && x->tasks) {
        PyObject *error = PyErr_GetRaisedException();
        frame = frame_of(PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0)
                         : names                ? PyDict_GetItemString(names, "coro")
                                                : NULL);
        if (frame) {
            shadow_enter();
            note(x, frame);
            shadow_leave();
        }
        PyErr_SetRaisedException(error);
    }
    int failed = initialize(task, args, names);
    if (failed && frame)
        forget(frame);
    return failed;
}

/* --- its turns -------------------------------------------------------------------------------------- */

struct exact_node *tasks_node(const struct exact_thread *t, const frame_t *f)
{
    const PyCodeObject *code = (const PyCodeObject *)FRAME_CODE(f);
    const uint64_t *made = code->co_flags & CO_COROUTINE ? map_get(&makers, (uint64_t)f) : NULL;
    return made && *made >> NODE_BITS == t->serial
               ? node_of(t, (uint32_t)*made & ((1u << NODE_BITS) - 1))
               : NULL;
}

uint64_t tasks_flag(const struct exact_thread *t, const struct exact_node *parent)
{
    return is_task(parent) || (t->depth && is_left_out(&t->stack[t->depth - 1])) ? EXACT_TASK : 0;
}

void tasks_ended(const frame_t *f)
{
    forget((uint64_t)f);
}

/* It has time of its own: other nodes' figures would have some where they have none. */
static bool has_figures(struct exact_node *n)
{
    return atomic_load_explicit(&n->calls, memory_order_relaxed) ||
           atomic_load_explicit(&n->resumes, memory_order_relaxed) ||
           atomic_load_explicit(&n->seeded, memory_order_relaxed);
}

/* What began before the turn began later by so much; of what is kept each call has its true begin. */
static void take_away(struct exact_thread *t, uint32_t i, uint64_t from, uint64_t took)
{
    struct exact_frame *s = &t->stack[i];
    if (s->flags & EXACT_RECORDED && !(s->flags & EXACT_KEPT) && s->since && s->since <= from)
        __atomic_store_n(&s->since, s->since + took, __ATOMIC_RELAXED);
    if (s->flags & EXACT_IN_C && t->c_calls[i].since && t->c_calls[i].since <= from)
        __atomic_store_n(&t->c_calls[i].since, t->c_calls[i].since + took, __ATOMIC_RELAXED);
    if (s->flags & EXACT_LINES && t->line[i].since && t->line[i].since <= from)
        t->line[i].since += took;
}

/* A node's parent has a smaller id than it: so both paths are gone up, the one with the greater id first, until they
 * meet.  From there on both are one, and what runs counts the time itself; not what a filter leaves out of the turn. */
void tasks_end_turn(struct exact_thread *t, uint64_t now)
{
    uint32_t at = t->depth - 1;
    const struct exact_frame *top = &t->stack[at];
    if (!(top->flags & EXACT_RECORDED) || now <= top->since)
        return;
    uint64_t from = top->since, took = now - from;
    struct exact_node *above = node_of(t, top->node->parent);
    for (uint32_t i = at; i--;) {
        for (; above->id > t->stack[i].node->id; above = node_of(t, above->parent))
            if (has_figures(above))
                count(&above->total_ticks, took);
        if (above->id != t->stack[i].node->id)
            take_away(t, i, from, took);
        else if (is_left_out(&t->stack[i]))
            above = node_of(t, above->parent);
        else
            return;
    }
    for (; above->id; above = node_of(t, above->parent))
        if (has_figures(above))
            count(&above->total_ticks, took);
}

/* --- the session ------------------------------------------------------------------------------------ */

/* Finds the type, once asyncio's module in C has been imported; nothing of the program's runs. */
static bool find_type(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = PyDict_GetItemString(modules, "_asyncio"); /* borrowed, as all here */
    PyObject *package = PyDict_GetItemString(modules, "asyncio");
    PyObject *type = module && PyModule_Check(module)
                         ? PyDict_GetItemString(PyModule_GetDict(module), "Task")
                         : NULL;
    if (!type || !PyType_Check(type) || !((PyTypeObject *)type)->tp_init)
        return false;
    task_type = (PyTypeObject *)Py_NewRef(type);
    PyObject *file = package && PyModule_Check(package)
                         ? PyDict_GetItemString(PyModule_GetDict(package), "__file__")
                         : NULL;
    Py_ssize_t slash =
        file && PyUnicode_Check(file) ? PyUnicode_FindChar(file, '/', 0, PY_SSIZE_T_MAX, -1) : -1;
    if (slash > 0)
        asyncio_folder = PyUnicode_Substring(file, 0, slash + 1);
    PyErr_Clear();
    return true;
}

static void listen(void)
{
    awaited = !task_type && !find_type();
    if (awaited || task_type->tp_init == on_task)
        return;
    initialize = task_type->tp_init;
    task_type->tp_init = on_task;
    PyObject *init = PyDict_GetItemString(task_type->tp_dict, "__init__"); /* borrowed */
    if (!wrapper && init && Py_IS_TYPE(init, &PyWrapperDescr_Type))
        wrapper = (PyWrapperDescrObject *)Py_NewRef(init);
    if (wrapper && wrapper->d_wrapped == (void *)initialize)
        wrapper->d_wrapped = (void *)on_task;
}

void tasks_code_runs(PyObject *code)
{
    static const char last[] = "/asyncio/runners.py"; /* when the type is there, and no task yet */
    Py_ssize_t length = 0, n = sizeof last - 1;
    if (LIKELY(!awaited) || !PyCode_Check(code) ||
        PyInterpreterState_Get() != PyInterpreterState_Main())
        return;
    const char *file = PyUnicode_AsUTF8AndSize(((PyCodeObject *)code)->co_filename, &length);
    if (!file)
        PyErr_Clear();
    else if (length >= n && !memcmp(file + length - n, last, (size_t)n))
        listen();
}

void tasks_start(struct exact *x)
{
    map_clear(&makers);
    n_makers = 0;
    if (x->tasks)
        listen();
}

void tasks_stop(void)
{
    awaited = false;
    if (task_type && task_type->tp_init == on_task)
        task_type->tp_init = initialize;
    if (wrapper && wrapper->d_wrapped == (void *)on_task)
        wrapper->d_wrapped = (void *)initialize;
    Py_CLEAR(task_type); /* classes that were made of it meanwhile still call what was ours */
    Py_CLEAR(wrapper);
    Py_CLEAR(asyncio_folder);
    map_clear(&makers);
    n_makers = 0;
}
