#include "shadow.h"

#include "filter.h"

#include <string.h>

#include "instrument.h"
#include "plain_text.h"
#include "spool.h"

#define CACHE 4096 /* verdicts, direct-mapped */

struct verdict {
    uint64_t code, id;
    bool selected, kept, opaque, has_lines, has_arguments;
    uint8_t usage; /* enum usage_kinds */
};

static struct verdict cache[CACHE];

/* Functions by name: a frozenset, and `search` methods.  Both NULL: none is named. */
struct named {
    PyObject *names, *patterns;
};

static PyObject *included, *excluded, *timers, *own;
static struct named only, kept, opaque, with_lines, with_arguments, with_usage[USAGE_KINDS];
static bool let_through;

static void clear_named(struct named *n)
{
    Py_CLEAR(n->names);
    Py_CLEAR(n->patterns);
}

void filter_clear(void)
{
    Py_CLEAR(included);
    Py_CLEAR(excluded);
    clear_named(&only);
    clear_named(&kept);
    clear_named(&opaque);
    clear_named(&with_lines);
    clear_named(&with_arguments);
    for (int i = 0; i < USAGE_KINDS; i++)
        clear_named(&with_usage[i]);
    Py_CLEAR(timers);
    memset(cache, 0, sizeof cache);
}

static int set_named(struct named *n, PyObject *value)
{
    PyObject *names, *patterns;
    if (!PyTuple_Check(value) ||
        !PyArg_ParseTuple(value, "O!O!", &PyFrozenSet_Type, &names, &PyTuple_Type, &patterns)) {
        PyErr_SetString(PyExc_TypeError, "functions are named by a frozenset and a tuple");
        return -1;
    }
    if (PySet_GET_SIZE(names) || PyTuple_GET_SIZE(patterns))
        *n = (struct named){Py_NewRef(names), Py_NewRef(patterns)};
    return 0;
}

static int set_usage(PyObject *usage)
{
    if (!PyTuple_Check(usage) || PyTuple_GET_SIZE(usage) != USAGE_KINDS) {
        PyErr_SetString(PyExc_TypeError, "usage is a tuple with functions for each kind");
        return -1;
    }
    for (int i = 0; i < USAGE_KINDS; i++) {
        PyObject *functions = PyTuple_GET_ITEM(usage, i);
        if (functions != Py_None && set_named(&with_usage[i], functions))
            return -1;
    }
    return 0;
}

int filter_set(PyObject *filter, PyObject *keep, PyObject *lines, PyObject *arguments,
               PyObject *usage)
{
    PyObject *include, *exclude, *names, *as_timers;
    filter_clear();
    if ((keep && set_named(&kept, keep)) || (lines && set_named(&with_lines, lines)) ||
        (arguments && set_named(&with_arguments, arguments)) || (usage && set_usage(usage)))
        return -1;
    if (!filter)
        return 0;
    if (!PyTuple_Check(filter) ||
        !PyArg_ParseTuple(filter, "O!O!OO", &PyTuple_Type, &include, &PyTuple_Type, &exclude,
                          &names, &as_timers) ||
        (as_timers != Py_None && !(PyTuple_Check(as_timers) && PyTuple_GET_SIZE(as_timers) == 4))) {
        PyErr_SetString(PyExc_TypeError,
                        "a filter is two tuples, named functions, and None or four tuples");
        return -1;
    }
    if (set_named(&only, names))
        return -1;
    included = Py_NewRef(include);
    excluded = Py_NewRef(exclude);
    timers = as_timers == Py_None ? NULL : Py_NewRef(as_timers);
    return 0;
}

int filter_set_opaque(PyObject *names)
{
    clear_named(&opaque);
    memset(cache, 0, sizeof cache);
    return set_named(&opaque, names);
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
    return included || with_lines.names;
}

bool filter_keeps_any(void)
{
    return kept.names || opaque.names;
}

uint32_t filter_usage_of_any(void)
{
    uint32_t kinds = 0;
    for (int i = 0; i < USAGE_KINDS; i++)
        kinds |= with_usage[i].names ? 1u << i : 0;
    return kinds;
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

/* By its qualified name, `module.qualname`, or a pattern on one of these or on `file:qualname`? */
static bool is_named(const struct named *n, const PyCodeObject *code, PyObject *module)
{
    PyObject *texts[3] = {Py_NewRef(code->co_qualname)};
    texts[1] = module ? PyUnicode_FromFormat("%U.%U", module, texts[0]) : Py_NewRef(texts[0]);
    bool has_patterns = PyTuple_GET_SIZE(n->patterns);
    if (has_patterns)
        texts[2] = PyUnicode_FromFormat("%U:%U", code->co_filename, texts[0]);
    bool found = false;
    for (int i = 0; i < 2 && texts[i] && !found; i++)
        found = PySet_Contains(n->names, texts[i]) > 0;
    if (!found && has_patterns && texts[1] && texts[2])
        found = any_matches(n->patterns, texts, 3);
    PyErr_Clear();
    for (int i = 0; i < 3; i++)
        Py_XDECREF(texts[i]);
    return found;
}

/* One of two pairs: what is included (None: all), and what is excluded. */
static bool is_timer(int first, PyObject *text)
{
    PyObject *include = PyTuple_GET_ITEM(timers, first);
    return (include == Py_None || any_matches(include, &text, 1)) &&
           !any_matches(PyTuple_GET_ITEM(timers, first + 1), &text, 1);
}

static bool is_selected(const PyCodeObject *code, PyObject *module)
{
    PyObject *texts[3] = {code->co_qualname, code->co_filename, module};
    int n = module ? 3 : 2;
    return (!only.names || is_named(&only, code, module)) &&
           (!PyTuple_GET_SIZE(included) || any_matches(included, texts, n)) &&
           !any_matches(excluded, texts, n) &&
           (!timers || (is_timer(0, code->co_name) && is_timer(2, code->co_filename)));
}

static struct verdict verdict_on(struct exact *x, uint64_t at, PyObject *globals)
{
    struct verdict *cached = &cache[(at >> 4 ^ at >> 16) % CACHE];
    if (cached->code == at && codes_holds(x->codes, cached->id, at))
        return *cached;
    PyObject *error = PyErr_GetRaisedException(), *module = NULL;
    const PyCodeObject *code = (const PyCodeObject *)at;
    if (globals && PyDict_CheckExact(globals))
        module = PyDict_GetItemString(globals, "__name__"); /* borrowed; clears errors */
    if (module && !PyUnicode_Check(module))
        module = NULL;
    struct verdict v = {.code = at, .id = exact_intern_code(x, at)};
    v.selected = let_through || !included || is_selected(code, module);
    bool may_be_kept = v.selected && !let_through;
    bool named = may_be_kept && kept.names && is_named(&kept, code, module);
    v.opaque = may_be_kept && opaque.names && is_named(&opaque, code, module);
    v.kept = named || v.opaque;
    v.has_arguments = named && with_arguments.names && is_named(&with_arguments, code, module);
    for (int i = 0; i < USAGE_KINDS; i++)
        if (named && with_usage[i].names && is_named(&with_usage[i], code, module))
            v.usage |= (uint8_t)(1 << i);
    bool has_facts = v.kept || (may_be_kept && only.names);
    uint64_t *recorded = has_facts && v.id
                             ? map_put(&x->facts_recorded, codes_numbers(x->codes, v.id).function)
                             : NULL;
    if (recorded && !*recorded) {
        *recorded = 1;
        code_facts_record(x, code, module);
    }
    bool may_have_lines = x->lines && v.selected && !let_through;
    v.has_lines =
        may_have_lines && (with_lines.names ? is_named(&with_lines, code, module) : !!included);
    if (v.has_lines && v.id)
        instrument_add_lines(at);
    PyErr_SetRaisedException(error);
    if (v.id)
        *cached = v;
    return v;
}

bool filter_selects(struct exact *x, uint64_t code, PyObject *globals)
{
    return verdict_on(x, code, globals).selected;
}

bool filter_keeps(struct exact *x, uint64_t code, PyObject *globals)
{
    return verdict_on(x, code, globals).kept;
}

bool filter_is_opaque(struct exact *x, uint64_t code, PyObject *globals)
{
    return opaque.names && verdict_on(x, code, globals).opaque;
}

bool filter_has_lines(struct exact *x, uint64_t code, PyObject *globals)
{
    return verdict_on(x, code, globals).has_lines;
}

bool filter_has_arguments(struct exact *x, uint64_t code, PyObject *globals)
{
    return with_arguments.names && verdict_on(x, code, globals).has_arguments;
}

uint32_t filter_usage(struct exact *x, uint64_t code, PyObject *globals)
{
    return verdict_on(x, code, globals).usage;
}

/* --- code facts -------------------------------------------------------------------------------- */

/* What is recorded of a function whose single calls are kept, beside its name: once a function.
 *
 * Context: with the GIL; none of the program's code runs.
 */

/* Adds a text and a zero.  False: it does not fit. */
static bool add_text(unsigned char *to, size_t *at, PyObject *text)
{
    PyObject *bytes = plain_text(text, "surrogatepass");
    size_t n = bytes ? (size_t)PyBytes_GET_SIZE(bytes) + 1 : 0;
    bool fits = bytes && n <= CODE_FACTS_MAX - *at;
    if (fits) {
        memcpy(to + *at, PyBytes_AS_STRING(bytes), n);
        *at += n;
    }
    Py_XDECREF(bytes);
    return fits;
}

static uint32_t n_arguments(const PyCodeObject *code)
{
    return (uint32_t)(code->co_argcount + code->co_kwonlyargcount) +
           !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

void code_facts_record(struct exact *x, const PyCodeObject *code, PyObject *module)
{
    unsigned char *to = block_queue_reserve(&x->code_facts, CODE_FACTS_MAX, CODE_FACTS_MAX);
    PyObject *variables = PyCode_GetVarnames((PyCodeObject *)code), *none = PyUnicode_New(0, 0);
    size_t at = sizeof(struct spool_code_facts);
    if (to && variables && none && add_text(to, &at, code->co_qualname) &&
        add_text(to, &at, code->co_filename) && add_text(to, &at, module ? module : none) &&
        add_text(to, &at, code->co_name)) {
        struct spool_code_facts head = {.first_line = (uint32_t)code->co_firstlineno,
                                        .stack_size = (uint32_t)code->co_stacksize,
                                        .n_arguments = n_arguments(code)};
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(variables); i++)
            if (!add_text(to, &at, PyTuple_GET_ITEM(variables, i)))
                break;
        head.length = (uint32_t)at;
        memcpy(to, &head, sizeof head);
        block_queue_commit(&x->code_facts, at);
    }
    Py_XDECREF(variables);
    Py_XDECREF(none);
    PyErr_Clear();
}
