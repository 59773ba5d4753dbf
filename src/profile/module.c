/* module.c - the extension module pyhybrid._profile: turns buffers into calls of columns.h.
 *
 * Its stub, with what each function promises, is pyhybrid/_profile.pyi.  Loaded by the finishing process
 * and by readers of profiles, never by the profiled program.  Keeps to the limited API of 3.12.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns.h"

#include <errno.h>
#include <string.h>

/* One argument, as a column of values of one size. */
struct column {
    Py_buffer view;
    const void *data;
    size_t n;
};

static size_t size_of(char format)
{
    return format == 'B' ? 1 : format == 'I' ? 4 : 8;
}

/* Borrows `of` until `release`. */
static int borrow(struct column *c, PyObject *of, char format)
{
    Py_ssize_t size = (Py_ssize_t)size_of(format);
    if (PyObject_GetBuffer(of, &c->view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
        return -1;
    const char *given = c->view.format ? c->view.format : "B";
    if (c->view.itemsize != size || strlen(given) != 1 ||
        !strchr(size == 1   ? "Bb?"
                : size == 4 ? "I"
                            : "qlQL",
                *given)) {
        PyErr_Format(PyExc_ValueError, "a column of '%c' is wanted, not of '%s'", format, given);
        PyBuffer_Release(&c->view);
        return -1;
    }
    c->data = c->view.buf;
    c->n = (size_t)(c->view.len / size);
    return 0;
}

/* The columns of `formats`, in order; in front of the first that cannot be had, what was borrowed is given back. */
static int borrow_all(struct column *columns, PyObject *const *args, const char *formats)
{
    for (size_t i = 0; formats[i]; i++) {
        if (!borrow(&columns[i], args[i], formats[i]))
            continue;
        while (i-- > 0)
            PyBuffer_Release(&columns[i].view);
        return -1;
    }
    return 0;
}

static void release_all(struct column *columns, const char *formats)
{
    for (size_t i = 0; formats[i]; i++)
        PyBuffer_Release(&columns[i].view);
}

static int checked(int result)
{
    if (result == -ENOMEM)
        PyErr_NoMemory();
    else if (result == -EOVERFLOW)
        PyErr_SetString(PyExc_OverflowError, "a sum has more than 63 bits");
    else if (result)
        PyErr_SetString(PyExc_ValueError, "columns that do not fit one another, or no tree");
    return result;
}

static int same_length(const struct column *columns, const char *formats)
{
    for (size_t i = 1; formats[i]; i++)
        if (columns[i].n != columns[0].n)
            return checked(-EINVAL);
    return 0;
}

/* A new column of n values; *data is its memory. */
static PyObject *new_column(size_t n, char format, void *data)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * size_of(format)));
    if (bytes)
        *(void **)data = PyBytes_AsString(bytes);
    return bytes;
}

/* Its first n values, as a memoryview; takes the reference. */
static PyObject *as_column(PyObject *bytes, size_t n, char format)
{
    PyObject *view = bytes ? PyMemoryView_FromObject(bytes) : NULL, *column = NULL;
    Py_XDECREF(bytes);
    if (view) {
        char type[2] = {format, 0};
        column = PyObject_CallMethod(view, "cast", "s", type);
        Py_DECREF(view);
    }
    if (column && (size_t)PyObject_Length(column) != n) {
        PyObject *begin = PySequence_GetSlice(column, 0, (Py_ssize_t)n);
        Py_DECREF(column);
        column = begin;
    }
    return column;
}

static int count_args(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most)
{
    if (n >= least && n <= most)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() got %zd arguments", name, n);
    return -1;
}

static PyObject *pairs(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[2];
    if (count_args("pairs", n_args, 2, 2) || borrow_all(in, args, "II"))
        return NULL;
    uint32_t *group, *first;
    size_t n = in[0].n, n_groups = 0;
    PyObject *groups = new_column(n, 'I', &group), *firsts = new_column(n, 'I', &first);
    int failed = !groups || !firsts || same_length(in, "II");
    if (!failed) {
        int r;
        Py_BEGIN_ALLOW_THREADS r =
            columns_pairs(in[0].data, in[1].data, n, group, first, &n_groups);
        Py_END_ALLOW_THREADS failed = checked(r);
    }
    release_all(in, "II");
    if (failed) {
        Py_XDECREF(groups);
        Py_XDECREF(firsts);
        return NULL;
    }
    PyObject *by_row = as_column(groups, n, 'I'), *by_group = as_column(firsts, n_groups, 'I');
    PyObject *both = by_row && by_group ? PyTuple_Pack(2, by_row, by_group) : NULL;
    Py_XDECREF(by_row);
    Py_XDECREF(by_group);
    return both;
}

/* The three columns of results, cut to their lengths; takes the references. */
static PyObject *three_columns(PyObject *const *bytes, const size_t *n)
{
    PyObject *columns = PyTuple_New(3);
    for (Py_ssize_t i = 0; i < 3; i++) {
        PyObject *column = as_column(bytes[i], n[i], 'I');
        if (!column || !columns || PyTuple_SetItem(columns, i, column))
            Py_CLEAR(columns);
    }
    return columns;
}

static PyObject *paths(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[3];
    if (count_args("paths", n_args, 3, 3) || borrow_all(in, args, "IIB"))
        return NULL;
    uint32_t *node = NULL, *parent = NULL, *label = NULL;
    size_t n = in[0].n, n_nodes = 0;
    PyObject *made[3] = {new_column(n, 'I', &node), new_column(n, 'I', &parent),
                         new_column(n, 'I', &label)};
    int failed = !made[0] || !made[1] || !made[2] || same_length(in, "IIB");
    if (!failed) {
        int r;
        Py_BEGIN_ALLOW_THREADS r =
            columns_paths(in[0].data, in[1].data, in[2].data, n, node, parent, label, &n_nodes);
        Py_END_ALLOW_THREADS failed = checked(r);
    }
    release_all(in, "IIB");
    if (!failed)
        return three_columns(made, (const size_t[]){n, n_nodes, n_nodes});
    for (size_t i = 0; i < 3; i++)
        Py_XDECREF(made[i]);
    return NULL;
}

static PyObject *descend(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[3];
    if (count_args("descend", n_args, 3, 3) || borrow_all(in, args, "IBB"))
        return NULL;
    uint8_t *state;
    size_t n = in[0].n;
    PyObject *result = new_column(n, 'B', &state);
    if (result &&
        (same_length(in, "IB") ||
         checked(columns_descend(in[0].data, in[1].data, n, in[2].data, in[2].n / 256, state))))
        Py_CLEAR(result);
    release_all(in, "IBB");
    return as_column(result, n, 'B');
}

/* Of a table of any kind. */
static PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    if (count_args("take", n_args, 2, 2))
        return NULL;
    static const char *const kinds[] = {"II", "BI", "qI", NULL};
    struct column in[2];
    const char *formats = NULL;
    for (size_t i = 0; !formats && kinds[i]; i++) {
        PyErr_Clear();
        if (!borrow_all(in, args, kinds[i]))
            formats = kinds[i];
    }
    if (!formats)
        return NULL;
    char format = formats[0];
    size_t n = in[1].n;
    void *taken;
    PyObject *result = new_column(n, format, &taken);
    if (result && checked(columns_take(in[0].data, size_of(format), in[0].n, in[1].data, n, taken)))
        Py_CLEAR(result);
    release_all(in, formats);
    return as_column(result, n, format);
}

static PyObject *nearest(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[2];
    if (count_args("nearest", n_args, 2, 2) || borrow_all(in, args, "IB"))
        return NULL;
    uint32_t *at;
    size_t n = in[0].n;
    PyObject *result = new_column(n, 'I', &at);
    if (result &&
        (same_length(in, "IB") || checked(columns_nearest(in[0].data, in[1].data, n, at))))
        Py_CLEAR(result);
    release_all(in, "IB");
    return as_column(result, n, 'I');
}

static PyObject *outermost(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[3];
    if (count_args("outermost", n_args, 3, 3) || borrow_all(in, args, "IIB"))
        return NULL;
    uint8_t *outer;
    size_t n = in[0].n;
    PyObject *result = new_column(n, 'B', &outer);
    if (result && same_length(in, "IIB"))
        Py_CLEAR(result);
    if (result) {
        int r;
        Py_BEGIN_ALLOW_THREADS r = columns_outermost(in[0].data, in[1].data, in[2].data, n, outer);
        Py_END_ALLOW_THREADS if (checked(r)) Py_CLEAR(result);
    }
    release_all(in, "IIB");
    return as_column(result, n, 'B');
}

static PyObject *inclusive(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct column in[2];
    if (count_args("inclusive", n_args, 2, 2) || borrow_all(in, args, "Iq"))
        return NULL;
    int64_t *value;
    size_t n = in[0].n;
    PyObject *result = new_column(n, 'q', &value);
    if (result && same_length(in, "Iq"))
        Py_CLEAR(result);
    if (result) {
        memcpy(value, in[1].data, n * sizeof *value);
        if (checked(columns_inclusive(in[0].data, value, n)))
            Py_CLEAR(result);
    }
    release_all(in, "Iq");
    return as_column(result, n, 'q');
}

static PyObject *add_up(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    if (count_args("add_up", n_args, 3, 4))
        return NULL;
    size_t n_groups = PyLong_AsSize_t(args[2]);
    if (n_groups == (size_t)-1 && PyErr_Occurred())
        return NULL;
    int some = n_args == 4 && args[3] != Py_None;
    const char *formats = some ? "IqB" : "Iq";
    PyObject *const given[3] = {args[0], args[1], some ? args[3] : NULL};
    struct column in[3];
    if (borrow_all(in, given, formats))
        return NULL;
    int64_t *sum;
    PyObject *result = new_column(n_groups, 'q', &sum);
    if (result && (same_length(in, formats) ||
                   checked(columns_add_up(in[0].data, in[1].data, some ? in[2].data : NULL, in[0].n,
                                          sum, n_groups))))
        Py_CLEAR(result);
    release_all(in, formats);
    return as_column(result, n_groups, 'q');
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {FUNCTION(paths),     FUNCTION(descend), FUNCTION(pairs),
                                  FUNCTION(take),      FUNCTION(nearest), FUNCTION(outermost),
                                  FUNCTION(inclusive), FUNCTION(add_up),  {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_profile",
                                        .m_doc = "Passes over the columns of a call tree.",
                                        .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit__profile(void);
PyMODINIT_FUNC PyInit__profile(void)
{
    return PyModuleDef_Init(&definition);
}
