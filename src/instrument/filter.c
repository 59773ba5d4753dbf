#include "filter.h"

#include <string.h>

#include "instrument.h"

#define CACHE 4096 /* verdicts, direct-mapped */

static struct {
    uint64_t code, id;
    bool selected;
} cache[CACHE];

static PyObject *included, *excluded, *only, *timers, *own;
static bool let_through;

void filter_clear(void)
{
    Py_CLEAR(included);
    Py_CLEAR(excluded);
    Py_CLEAR(only);
    Py_CLEAR(timers);
    memset(cache, 0, sizeof cache);
}

int filter_set(PyObject *include, PyObject *exclude, PyObject *names, PyObject *as_timers)
{
    filter_clear();
    if (!include)
        return 0;
    bool has_timers = PyTuple_Check(as_timers) && PyTuple_GET_SIZE(as_timers) == 4;
    if (!PyTuple_Check(include) || !PyTuple_Check(exclude) || !PyFrozenSet_Check(names) ||
        (as_timers != Py_None && !has_timers)) {
        PyErr_SetString(PyExc_TypeError,
                        "a filter is two tuples, a frozenset, and None or four tuples");
        return -1;
    }
    included = Py_NewRef(include);
    excluded = Py_NewRef(exclude);
    only = Py_NewRef(names);
    timers = has_timers ? Py_NewRef(as_timers) : NULL;
    return 0;
}

void filter_set_own(PyObject *folder)
{
    Py_XSETREF(own, Py_XNewRef(folder));
}

bool filter_has_own(void)
{
    return own && PyUnicode_GET_LENGTH(own);
}

bool filter_is_own(uint64_t code)
{
    PyObject *file = ((const PyCodeObject *)code)->co_filename;
    return PyUnicode_Tailmatch(file, own, 0, PY_SSIZE_T_MAX, -1) == 1;
}

bool filter_is_set(void)
{
    return included != NULL;
}

bool filter_has_names(void)
{
    return only && PySet_GET_SIZE(only);
}

void filter_let_through(bool all)
{
    let_through = all;
    memset(cache, 0, sizeof cache);
}

/* Does one of `searches` find something in one of the texts? */
static bool any_matches(PyObject *searches, PyObject *const *texts, int n)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(searches); i++)
        for (int j = 0; j < n; j++) {
            PyObject *match = PyObject_CallOneArg(PyTuple_GET_ITEM(searches, i), texts[j]);
            bool found = match && match != Py_None;
            Py_XDECREF(match);
            PyErr_Clear();
            if (found)
                return true;
        }
    return false;
}

static bool is_named(PyObject *qualname, PyObject *module)
{
    if (!PySet_GET_SIZE(only))
        return true;
    int found = PySet_Contains(only, qualname);
    if (!found && module) {
        PyObject *full = PyUnicode_FromFormat("%U.%U", module, qualname);
        found = full ? PySet_Contains(only, full) : 0;
        Py_XDECREF(full);
    }
    PyErr_Clear();
    return found > 0;
}

/* One of two pairs: what is included (None: all), and what is excluded. */
static bool is_timer(int first, PyObject *text)
{
    PyObject *include = PyTuple_GET_ITEM(timers, first);
    return (include == Py_None || any_matches(include, &text, 1)) &&
           !any_matches(PyTuple_GET_ITEM(timers, first + 1), &text, 1);
}

static bool judge(const PyCodeObject *code, PyObject *globals)
{
    PyObject *module = NULL;
    if (globals && PyDict_CheckExact(globals))
        module = PyDict_GetItemString(globals, "__name__"); /* borrowed; clears errors */
    if (module && !PyUnicode_Check(module))
        module = NULL;
    PyObject *texts[3] = {code->co_qualname, code->co_filename, module};
    int n = module ? 3 : 2;
    return is_named(code->co_qualname, module) &&
           (!PyTuple_GET_SIZE(included) || any_matches(included, texts, n)) &&
           !any_matches(excluded, texts, n) &&
           (!timers || (is_timer(0, code->co_name) && is_timer(2, code->co_filename)));
}

bool filter_selects(struct exact *x, uint64_t code, PyObject *globals)
{
    uint64_t at = (code >> 4 ^ code >> 16) % CACHE;
    if (cache[at].code == code && codes_holds(x->codes, cache[at].id, code))
        return cache[at].selected;
    PyObject *error = PyErr_GetRaisedException();
    bool selected = let_through || judge((const PyCodeObject *)code, globals);
    uint64_t id = exact_intern_code(x, code);
    if (selected && id && x->lines)
        instrument_add_lines(code);
    PyErr_SetRaisedException(error);
    if (id) {
        cache[at].code = code;
        cache[at].id = id;
        cache[at].selected = selected;
    }
    return selected;
}
