/* watch_list.c - functions of a framework whose single calls are kept by themselves (watched_calls.h), by file and
 * name.
 *
 * Of a function that runs within itself, or within one of its group, the outermost call counts.  For some functions calls back are watched as well:
 * of what they run, directly or through the framework's own functions, the first function that is the program's is
 * watched, too (a closure that an optimizer runs).  All that is decided when a path is new, so calls cost nothing
 * more.
 *
 * Of some that end something is to be noted soon after (what was compiled): as the next call of another one begins.
 *
 * Some functions have a rest: what the function of the program that called one does from its begin to the own end is
 * one call more (a file that was saved, and is then written to the disk).
 *
 * Context: with the GIL.
 */
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "instrument.h"

#include "turns.h"

static PyObject *watched, *own_folders, *other_folders, *but_these, *on_begin, *on_noted;
static bool is_to_note;      /* as the next watched function begins */
static bool is_noted_itself; /* the one that begins now: its own work comes first */

#define RESTS_MAX 32
static uint32_t rests[RESTS_MAX], n_rests; /* numbers of functions that have one */
static uint32_t noted[RESTS_MAX], n_noted; /* and of those of which something is noted */

int watch_list_set(PyObject *functions, PyObject *own, PyObject *others, PyObject *others_but)
{
    if (!PyDict_CheckExact(functions) || !PyTuple_CheckExact(own) || !PyTuple_CheckExact(others) ||
        !PyTuple_CheckExact(others_but)) {
        PyErr_SetString(PyExc_TypeError, "a dict and three tuples of folders are wanted");
        return -1;
    }
    n_rests = n_noted = 0;
    Py_XSETREF(watched, Py_NewRef(functions));
    Py_XSETREF(own_folders, Py_NewRef(own));
    Py_XSETREF(other_folders, Py_NewRef(others));
    Py_XSETREF(but_these, Py_NewRef(others_but));
    return 0;
}

void watch_list_clear(void)
{
    Py_CLEAR(watched);
    Py_CLEAR(own_folders);
    Py_CLEAR(other_folders);
    Py_CLEAR(but_these);
    Py_CLEAR(on_begin);
    Py_CLEAR(on_noted);
    is_to_note = is_noted_itself = false;
    call_inputs_set(NULL, NULL, NULL, NULL);
}

void watch_list_on_begin(PyObject *begins)
{
    Py_XSETREF(on_begin, Py_XNewRef(begins));
}

void watch_list_on_noted(PyObject *notes)
{
    Py_XSETREF(on_noted, Py_XNewRef(notes));
}

static bool has(const uint32_t *numbers, uint32_t n, uint64_t word)
{
    for (uint32_t i = 0; i < n; i++)
        if (numbers[i] == (word & PYH_FUNCTION_MASK))
            return true;
    return false;
}

bool watch_list_begins(uint64_t word)
{
    if (!has(noted, n_noted, word))
        return on_begin || is_to_note;
    is_to_note = on_noted;
    is_noted_itself = on_begin;
    return on_begin;
}

/* Takes the listener over; `code` is NULL where it gets nothing. */
static void call_listener(PyObject *begins, PyObject *code)
{
    if (!begins)
        return;
    PyObject *error = PyErr_GetRaisedException();
    shadow_enter();
    PyObject *result = code ? PyObject_CallOneArg(begins, code) : PyObject_CallNoArgs(begins);
    shadow_leave();
    if (!result && !PyErr_ExceptionMatches(
                       PyExc_Exception)) /* a handler of the program's was called meanwhile */
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), PyErr_Occurred());
    PyErr_Clear();
    Py_DECREF(begins);
    Py_XDECREF(result);
    PyErr_SetRaisedException(error);
}

void watch_list_notify(uint64_t code)
{
    PyObject *notes = is_to_note && !is_noted_itself ? Py_XNewRef(on_noted) : NULL;
    is_to_note &= is_noted_itself;
    is_noted_itself = false;
    call_listener(notes, NULL);
    call_listener(Py_XNewRef(on_begin), (PyObject *)code);
}

struct listed {
    bool is_one, calls_back, has_rest, is_noted; /* calls back from it are watched */
    int group;                                   /* 0: it is alone */
};

/* Does the list name it? */
static struct listed listed(const PyCodeObject *code)
{
    PyObject *of_name = PyDict_GetItemWithError(watched, code->co_qualname), *end;
    for (Py_ssize_t i = 0; of_name && PyTuple_CheckExact(of_name) && i < PyTuple_GET_SIZE(of_name);
         i++) {
        int with_calls_back = 0, with_rest = 0, is_noted = 0, group = 0;
        if (PyArg_ParseTuple(PyTuple_GET_ITEM(of_name, i), "Upppi", &end, &with_calls_back,
                             &with_rest, &is_noted, &group) &&
            PyUnicode_Tailmatch(code->co_filename, end, 0, PY_SSIZE_T_MAX, 1) > 0)
            return (struct listed){true, with_calls_back, with_rest, is_noted, group};
    }
    return (struct listed){0};
}

static bool begins_with(PyObject *file, PyObject *folders)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(folders); i++)
        if (PyUnicode_Check(PyTuple_GET_ITEM(folders, i)) &&
            PyUnicode_Tailmatch(file, PyTuple_GET_ITEM(folders, i), 0, PY_SSIZE_T_MAX, -1) > 0)
            return true;
    return false;
}

/* Generated code (`<string>`) is whoever's. */
static bool is_programs(const PyCodeObject *code)
{
    PyObject *file = code->co_filename;
    bool is_generated = PyUnicode_GET_LENGTH(file) && PyUnicode_READ_CHAR(file, 0) == '<';
    return !is_generated && !begins_with(file, own_folders) &&
           (!begins_with(file, other_folders) || begins_with(file, but_these));
}

/* The nearest node of a Python function, `n` itself or further out; NULL: there is none. */
static const struct exact_node *function_of(const struct exact_thread *t,
                                            const struct exact_node *n)
{
    while (n->id && frame_tag(n->word) != PYH_TAG_FUNCTION)
        n = exact_read_node(t, n->parent);
    return n->id ? n : NULL;
}

/* The group of a watched function; 0: none, or its code object is gone. */
static int group_of(const struct exact_node *n)
{
    const struct exact *x = atomic_load(&exact_current);
    uint64_t id = frame_code_id(n->word);
    uint64_t code = x ? codes_at(x->codes, (uint32_t)id & (CODES_SLOTS - 1)) : 0;
    bool is_there = code && codes_holds(x->codes, id, code);
    return is_there ? listed((const PyCodeObject *)code).group : 0;
}

/* Is a call of the same function, or of one of the group, watched further out? */
static bool runs_in_itself(const struct exact_thread *t, const struct exact_node *parent,
                           uint64_t word, int group)
{
    const struct exact_node *n = function_of(t, parent);
    for (; n; n = function_of(t, exact_read_node(t, n->parent)))
        if (exact_is_watched(n) &&
            (!((n->word ^ word) & PYH_FUNCTION_MASK) || (group && group_of(n) == group)))
            return true;
    return false;
}

bool watch_list_has_rest(uint64_t word)
{
    return has(rests, n_rests, word);
}

bool watch_list_is_programs(uint64_t code)
{
    const PyCodeObject *c = (const PyCodeObject *)code;
    return watched && !is_generator(c) && is_programs(c);
}

uint64_t watch_list_marks(const struct exact_thread *t, const struct exact_node *parent,
                          uint64_t word, uint64_t code)
{
    if (!watched)
        return 0;
    const PyCodeObject *c = (const PyCodeObject *)code;
    PyObject *error = PyErr_GetRaisedException();
    uint64_t marks = 0;
    struct listed its = is_generator(c) ? (struct listed){0} : listed(c);
    if (its.is_one && !runs_in_itself(t, parent, word, its.group)) {
        marks = PYH_FUNCTION_WATCHED | (its.calls_back ? PYH_FUNCTION_INSIDE : 0);
        if (its.has_rest && !watch_list_has_rest(word) && n_rests < RESTS_MAX)
            rests[n_rests++] = word & PYH_FUNCTION_MASK;
        if (its.is_noted && !has(noted, n_noted, word) && n_noted < RESTS_MAX)
            noted[n_noted++] = word & PYH_FUNCTION_MASK;
    } else {
        const struct exact_node *caller = function_of(t, parent);
        if (caller && caller->word & PYH_FUNCTION_INSIDE)
            marks = is_generator(c) || !is_programs(c) ? PYH_FUNCTION_INSIDE : PYH_FUNCTION_WATCHED;
    }
    PyErr_SetRaisedException(error); /* drops those of the list, which has none */
    return marks;
}
