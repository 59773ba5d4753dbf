/* arguments.h - one pass as a function of Python's: its arguments borrowed and checked, its results as columns.
 *
 * Context: with the GIL, which is let go of while the pass runs.  A function returns NULL with an exception set where an
 * argument is not what is told here, where columns differ in length, or where the pass returns an error.
 */
#ifndef PYH_ARGUMENTS_H
#define PYH_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

struct argument {
    const void *data; /* NULL: left out */
    size_t n;         /* values */
    size_t size;      /* of one, in bytes */
    uint64_t number;
    Py_buffer view;
};

struct result {
    void *data;
    size_t n; /* how many there is room for, as the pass begins; how many there are, as it ends */
};

/* takes: a letter for each argument: a column of B (uint8), I (uint32), q (int64 or uint64), or x (any of these); or n: a
 * number.  Columns have one length but for those followed by `*`; what is followed by `?` may be None or left out.
 * gives: the results, by the same letters: columns (x: of the first argument's kind), or a number, which is left in `n`.
 * room: how many values a result has room for; NULL: as many as the columns have. */
struct pass {
    const char *name, *takes, *gives;
    size_t (*room)(const struct argument *in);
    int (*run)(const struct argument *in,
               struct result *out); /* 0 or -errno, as columns.h has it */
};

enum { MOST_ARGUMENTS = 8, MOST_RESULTS = 24 };

PyObject *pass_call(const struct pass *pass, PyObject *const *args, Py_ssize_t n_args);

/* The same, for passes that are not all of a function. */
int argument_borrow(struct argument *a, PyObject *of, char kind); /* until argument_release */
void argument_release(struct argument *a);
int pass_failed(int error); /* sets the exception for a pass's error, and returns it */
PyObject *column_new(size_t n, char kind,
                     void *data); /* bytes of n values; *data is their memory */
PyObject *column_view(PyObject *bytes, size_t n, char kind); /* its first n; takes the reference */

#endif
