/* database.c - functions of _columns that pass columns from and to SQLite (sqlite_columns.c), and give memory back
 * that was for one of many files.
 *
 * Context: with the GIL.  They raise OSError with SQLite's message, or as stated in arguments.c.
 */
#include "passes.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 16 };
static const char database_name[] = "pyhybrid._columns.database";

static void close_database(PyObject *capsule)
{
    sqlite_columns_close(PyCapsule_GetPointer(capsule, database_name));
}

static int failed_in(struct sqlite3 *db, int error)
{
    if (error == -EIO)
        PyErr_SetString(PyExc_OSError, sqlite_columns_message(db));
    else
        pass_failed(error);
    return error;
}

PyObject *open_database(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    if (n_args != 2)
        return PyErr_Format(PyExc_TypeError, "open_database() got %zd arguments", n_args);
    int writable = PyObject_IsTrue(args[1]);
    PyObject *name = NULL; /* bytes */
    if (writable < 0 || !PyUnicode_FSConverter(args[0], &name))
        return NULL;
    struct sqlite3 *db = NULL;
    int r = sqlite_columns_open(&db, PyBytes_AsString(name), writable);
    Py_DECREF(name);
    PyObject *capsule = NULL;
    if (!r)
        capsule = PyCapsule_New(db, database_name, close_database);
    else
        failed_in(db, r);
    if (!capsule)
        sqlite_columns_close(db);
    return capsule;
}

/* The columns' memory, as Python has it; frees it. */
static PyObject *as_columns(const char *kinds, void **data, size_t n_rows)
{
    Py_ssize_t n = (Py_ssize_t)strlen(kinds);
    PyObject *columns = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        void *memory;
        PyObject *bytes = columns ? column_new(n_rows, kinds[i], &memory) : NULL;
        if (bytes)
            memcpy(memory, data[i], (size_t)PyBytes_Size(bytes));
        free(data[i]);
        PyObject *column = column_view(bytes, n_rows, kinds[i]);
        if (columns && (!column || PyTuple_SetItem(columns, i, column)))
            Py_CLEAR(columns);
    }
    return columns;
}

PyObject *read_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    if (n_args != 4)
        return PyErr_Format(PyExc_TypeError, "read_columns() got %zd arguments", n_args);
    struct sqlite3 *db = PyCapsule_GetPointer(args[0], database_name);
    Py_ssize_t length;
    const char *sql = db ? PyUnicode_AsUTF8AndSize(args[1], &length) : NULL;
    const char *kinds = sql ? PyUnicode_AsUTF8AndSize(args[2], &length) : NULL;
    uint64_t most_steps = kinds ? PyLong_AsUnsignedLongLong(args[3]) : 0;
    if (!kinds || PyErr_Occurred())
        return NULL;
    if (strlen(kinds) > MOST_COLUMNS || strspn(kinds, "Iq") != strlen(kinds))
        return PyErr_Format(PyExc_ValueError, "no kinds of columns: '%s'", kinds);
    void *data[MOST_COLUMNS];
    size_t n_rows = 0;
    int r;
    Py_BEGIN_ALLOW_THREADS r = sqlite_columns_read(db, most_steps, sql, kinds, data, &n_rows);
    Py_END_ALLOW_THREADS if (r)
    {
        failed_in(db, r);
        return NULL;
    }
    return as_columns(kinds, data, n_rows);
}

static int borrow_columns(PyObject *const *columns, size_t n, struct argument *in, char *kinds,
                          const void **data)
{
    for (size_t i = 0; i < n; i++) {
        if (argument_borrow(&in[i], columns[i], 'x'))
            return -1;
        kinds[i] = in[i].size == 4 ? 'I' : 'q';
        data[i] = in[i].data;
        if (in[i].size == 1 || in[i].n != in[0].n)
            return pass_failed(-EINVAL);
    }
    return 0;
}

PyObject *write_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    if (n_args < 4 || n_args > 3 + MOST_COLUMNS)
        return PyErr_Format(PyExc_TypeError, "write_columns() got %zd arguments", n_args);
    struct sqlite3 *db = PyCapsule_GetPointer(args[0], database_name);
    Py_ssize_t length;
    const char *insert = db ? PyUnicode_AsUTF8AndSize(args[1], &length) : NULL;
    const char *row = insert ? PyUnicode_AsUTF8AndSize(args[2], &length) : NULL;
    if (!row)
        return NULL;
    size_t n = (size_t)n_args - 3;
    struct argument in[MOST_COLUMNS] = {0};
    char kinds[MOST_COLUMNS + 1] = "";
    const void *data[MOST_COLUMNS];
    int failed = borrow_columns(args + 3, n, in, kinds, data);
    if (!failed) {
        int r;
        Py_BEGIN_ALLOW_THREADS r = sqlite_columns_write(db, insert, row, kinds, data, in[0].n);
        Py_END_ALLOW_THREADS failed = failed_in(db, r);
    }
    for (size_t i = 0; i < n; i++)
        argument_release(&in[i]);
    return failed ? NULL : Py_NewRef(Py_None);
}

PyObject *trim_memory(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    (void)args;
    if (n_args)
        return PyErr_Format(PyExc_TypeError, "trim_memory() got %zd arguments", n_args);
    Py_BEGIN_ALLOW_THREADS malloc_trim(0);
    Py_END_ALLOW_THREADS return Py_NewRef(Py_None);
}
