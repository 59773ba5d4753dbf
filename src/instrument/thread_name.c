/* thread_name.c - the calling thread's name, as `threading` has it.
 *
 * Context: with the GIL.
 *
 * Sources: Lib/threading.py (Thread._bootstrap, Thread._name), Objects/object.c (PyObject_GenericGetAttr)
 * of CPython 3.12 to 3.15.
 */
#include "current_frame.h" /* first: it defines Py_BUILD_CORE */

#include "shadow.h"

#include <string.h>

#include "plain_text.h"

#define FRAMES_MAX 100000

/* `self` of Thread._bootstrap, the outermost function of each thread that `threading` starts; or NULL. */
static PyObject *thread_object(void)
{
    const frame_t *outermost = NULL;
    int n = 0;
    for (const frame_t *f = current_frame(); f && n < FRAMES_MAX; f = f->previous, n++)
        if (!FRAME_IS_ENTRY(f))
            outermost = f;
    const PyCodeObject *code = outermost ? (const PyCodeObject *)FRAME_CODE(outermost) : NULL;
    if (!code || !PyCode_Check((PyObject *)FRAME_CODE(outermost)) || code->co_argcount < 1 ||
        PyUnicode_CompareWithASCIIString(code->co_qualname, "Thread._bootstrap"))
        return NULL;
    return FRAME_LOCAL(outermost, 0);
}

/* An attribute of the object itself, where no code of the program is asked for it. */
static PyObject *own_attribute(PyObject *of, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name), *value = NULL;
    if (key && Py_TYPE(of)->tp_getattro == PyObject_GenericGetAttr &&
        !_PyType_Lookup(Py_TYPE(of), key))
        value = PyObject_GenericGetAttr(of, key);
    Py_XDECREF(key);
    return value;
}

void thread_name(char *to, size_t size)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *self = thread_object();
    PyObject *name = self ? own_attribute(self, "_name") : NULL;
    PyObject *bytes =
        name && PyUnicode_CheckExact(name) ? plain_text(name, "backslashreplace") : NULL;
    const char *text = bytes ? PyBytes_AS_STRING(bytes) : "";
    Py_ssize_t length = bytes ? PyBytes_GET_SIZE(bytes) : 0;
    while (length && ((size_t)length >= size || (text[length] & 0xc0) == 0x80))
        length--; /* not in the midst of a character */
    memcpy(to, text, (size_t)length);
    to[length] = 0;
    Py_XDECREF(bytes);
    Py_XDECREF(name);
    PyErr_SetRaisedException(error);
}
