/* arguments.c - one pass as a function of Python's: its arguments borrowed and checked, its results as columns.
 *
 * Context: with the GIL, which is let go of while the pass runs.  A function returns NULL with an exception set where an
 * argument is not of its pass's kind, where columns differ in length, or where the pass returns an error.
 */
#include "passes.h"

#include <errno.h>
#include <string.h>

static size_t size_of(char kind)
{
    return kind == 'B' ? 1 : kind == 'I' ? 4 : 8;
}

/* What memoryviews call the kinds that a letter stands for. */
static const char *formats_of(char kind)
{
    return kind == 'B' ? "Bb?" : kind == 'I' ? "I" : kind == 'q' ? "qlQL" : "Bb?IqlQL";
}

int argument_borrow(struct argument *a, PyObject *of, char kind)
{
    if (PyObject_GetBuffer(of, &a->view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
        return -1;
    const char *given = a->view.format ? a->view.format : "B";
    if (strlen(given) != 1 || !strchr(formats_of(kind), *given)) {
        PyErr_Format(PyExc_ValueError, "a column of '%s' is wanted, not of '%s'",
                     kind == 'x' ? "BIq" : (const char[]){kind, 0}, given);
        PyBuffer_Release(&a->view);
        return -1;
    }
    a->size = (size_t)a->view.itemsize;
    a->data = a->view.buf ? a->view.buf : "";
    a->n = (size_t)a->view.len / a->size;
    return 0;
}

void argument_release(struct argument *a)
{
    if (a->data)
        PyBuffer_Release(&a->view);
    a->data = NULL;
}

int pass_failed(int error)
{
    if (error == -ENOMEM)
        PyErr_NoMemory();
    else if (error == -EOVERFLOW)
        PyErr_SetString(PyExc_OverflowError, "a sum has more than 63 bits");
    else if (error)
        PyErr_SetString(PyExc_ValueError, "columns that do not fit one another, or no tree");
    return error;
}

PyObject *column_new(size_t n, char kind, void *data)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * size_of(kind)));
    if (bytes)
        *(void **)data = PyBytes_AsString(bytes);
    return bytes;
}

PyObject *column_view(PyObject *bytes, size_t n, char kind)
{
    PyObject *view = bytes ? PyMemoryView_FromObject(bytes) : NULL, *column = NULL;
    Py_XDECREF(bytes);
    if (view) {
        column = PyObject_CallMethod(view, "cast", "s", (const char[]){kind, 0});
        Py_DECREF(view);
    }
    if (column && (size_t)PyObject_Length(column) != n) {
        PyObject *begin = PySequence_GetSlice(column, 0, (Py_ssize_t)n);
        Py_DECREF(column);
        column = begin;
    }
    return column;
}

/* How many there are, or -1; *length is that of all columns. */
static int take_arguments(const struct pass *pass, PyObject *const *args, Py_ssize_t n_args,
                          struct argument *in, size_t *length)
{
    Py_ssize_t n = 0;
    int known = 0;
    for (const char *at = pass->takes; *at; n++) {
        char kind = *at++;
        int any_length = *at == '*', optional = *at == '?';
        at += any_length || optional;
        if (n >= n_args ? optional : optional && args[n] == Py_None)
            continue;
        if (n >= n_args) {
            PyErr_Format(PyExc_TypeError, "%s() got %zd arguments", pass->name, n_args);
            return -1;
        }
        if (kind == 'n') {
            in[n].number = PyLong_AsUnsignedLongLong(args[n]);
            if (in[n].number == (uint64_t)-1 && PyErr_Occurred())
                return -1;
            continue;
        }
        if (argument_borrow(&in[n], args[n], kind))
            return -1;
        if (any_length)
            continue;
        if (known && in[n].n != *length) {
            pass_failed(-EINVAL);
            return -1;
        }
        *length = in[n].n;
        known = 1;
    }
    if (n_args > n) {
        PyErr_Format(PyExc_TypeError, "%s() got %zd arguments", pass->name, n_args);
        return -1;
    }
    return 0;
}

/* The results as Python has them: one, or a tuple; takes the references of `made`. */
static PyObject *results(const char *kinds, PyObject **made, const struct result *out)
{
    Py_ssize_t n = (Py_ssize_t)strlen(kinds);
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = kinds[i] == 'n' ? PyLong_FromSize_t(out[i].n)
                                        : column_view(made[i], out[i].n, kinds[i]);
        made[i] = NULL;
        if (!one || !all || PyTuple_SetItem(all, i, one))
            Py_CLEAR(all);
    }
    if (!all || n > 1)
        return all;
    PyObject *only = Py_NewRef(PyTuple_GetItem(all, 0));
    Py_DECREF(all);
    return only;
}

PyObject *pass_call(const struct pass *pass, PyObject *const *args, Py_ssize_t n_args)
{
    struct argument in[MOST_ARGUMENTS] = {0};
    struct result out[MOST_RESULTS] = {0};
    PyObject *made[MOST_RESULTS] = {0}, *result = NULL;
    char kinds[MOST_RESULTS + 1] = "";
    size_t length = 0;
    int failed = take_arguments(pass, args, n_args, in, &length);
    if (!failed && pass->room)
        length = pass->room(in);
    for (size_t i = 0; !failed && pass->gives[i]; i++) {
        kinds[i] = pass->gives[i];
        if (kinds[i] == 'x')
            kinds[i] = in[0].size == 1 ? 'B' : in[0].size == 4 ? 'I' : 'q';
        out[i].n = length;
        if (kinds[i] != 'n')
            failed = !(made[i] = column_new(length, kinds[i], &out[i].data));
    }
    if (!failed) {
        int r;
        Py_BEGIN_ALLOW_THREADS r = pass->run(in, out);
        Py_END_ALLOW_THREADS failed = pass_failed(r);
    }
    for (size_t i = 0; i < MOST_ARGUMENTS; i++)
        argument_release(&in[i]);
    if (!failed)
        result = results(kinds, made, out);
    for (size_t i = 0; i < MOST_RESULTS; i++)
        Py_XDECREF(made[i]);
    return result;
}
