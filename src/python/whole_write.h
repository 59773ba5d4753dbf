/* whole_write.h - an unbuffered stream's `write` that a signal cannot cut short.
 *
 * A signal that comes while write(2) fills a pipe makes it return what it wrote so far (man 7 signal).
 * The text layer of `python -u` calls FileIO.write once and drops its count, so the rest would be lost.
 *
 * Context: ordinary, with the GIL.
 */
#ifndef PYH_WHOLE_WRITE_H
#define PYH_WHOLE_WRITE_H

#include <Python.h>

/* whole_write(raw: io.FileIO) -> builtin: `raw.write` that goes on until everything is written, an error
 * comes, a signal handler of Python's raises, or the file (non-blocking) takes nothing. */
PyObject *whole_write(PyObject *self, PyObject *raw);

#endif
