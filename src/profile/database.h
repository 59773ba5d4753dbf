/* database.h - functions of _profile that pass columns from and to SQLite (sqlite_columns.h).
 *
 * Context: with the GIL.  They raise OSError with SQLite's message, or as arguments.h says.
 */
#ifndef PYH_DATABASE_H
#define PYH_DATABASE_H

#include "arguments.h"

PyObject *open_database(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *read_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *write_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args);

#endif
