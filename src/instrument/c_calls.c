/* c_calls.c - calls from Python into C functions, by CALL, C_RETURN and C_RAISE.
 *
 * A C function is the code that the interpreter calls for a callable: ml_meth of a builtin function or
 * method, the slot of a slot wrapper; of a class tp_vectorcall, or else tp_init unless that is object's,
 * or else tp_new; of any other object its vectorcall function or tp_call.  A Python function is none,
 * nor is what leads to one at once: a class whose `__init__` or `__new__`, an object whose `__call__` is
 * written in Python.
 *
 * A Python frame waits for one C function at a time.  What CPython sends for a bound-method object of a C
 * function that is called with `*args` has gaps: 3.12.1 nothing at all, so that it is not counted; 3.13
 * no end, so that it is timed until the frame does something else that has an event.
 *
 * Context: callbacks of sys.monitoring, with the GIL; c_calls_start ordinary Python context.
 *
 * Sources: Python/bytecodes.c (CALL), Objects/call.c, Objects/typeobject.c, Objects/descrobject.c of
 * CPython 3.12 to 3.15; names as in Modules/_lsprof.c, normalizeUserObj.
 */
#include "shadow.h"

#include <stdio.h>
#include <string.h>

#include "instrument.h"
#include "map.h"

#define CACHE 1024 /* functions whose names are announced, direct-mapped */
#define NAME_MAX_BYTES 256

/* `definition` has its name: functions that share their code (a binding generator's dispatcher) have
 * several. */
struct c_function {
    uint64_t address, definition;
};

static c_calls_announce *announce;
static struct c_function cache[CACHE];
static struct map announced;

static PyTypeObject *method_wrapper;            /* the type, which is not exported */
static uint64_t slot_call, slot_init, slot_new; /* they call what is written in Python */

/* Objects/descrobject.c */
struct wrapper {
    PyObject head;
    PyWrapperDescrObject *descriptor;
};

void c_calls_stop(void)
{
    map_clear(&announced);
}

int c_calls_start(c_calls_announce *with)
{
    announce = with;
    memset(cache, 0, sizeof cache);
    c_calls_stop();
    PyObject *bound = PyObject_GetAttrString(Py_None, "__repr__");
    PyObject *type =
        PyObject_CallFunction((PyObject *)&PyType_Type, "s(){sOsOsO}", "slots", "__call__", Py_None,
                              "__init__", Py_None, "__new__", Py_None);
    if (bound && type) {
        method_wrapper = Py_TYPE(bound);
        slot_call = (uint64_t)((PyTypeObject *)type)->tp_call;
        slot_init = (uint64_t)((PyTypeObject *)type)->tp_init;
        slot_new = (uint64_t)((PyTypeObject *)type)->tp_new;
    }
    int failed = !bound || !type;
    Py_XDECREF(bound);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

/* The class that brought the function which makes `type`'s objects; its base classes have others. */
static PyTypeObject *maker(PyTypeObject *type, uint64_t *address)
{
    if (type->tp_vectorcall) {
        *address = (uint64_t)type->tp_vectorcall;
        return type;
    }
    PyTypeObject *base;
    if (type->tp_init != PyBaseObject_Type.tp_init) {
        *address = (uint64_t)type->tp_init;
        while ((base = type->tp_base) && base->tp_init == type->tp_init)
            type = base;
    } else {
        *address = (uint64_t)type->tp_new;
        while ((base = type->tp_base) && base->tp_new == type->tp_new)
            type = base;
    }
    return type;
}

static const PyMethodDef *method_of(PyObject *callable)
{
    if (PyCFunction_Check(callable))
        return ((PyCFunctionObject *)callable)->m_ml;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyClassMethodDescr_Type))
        return ((PyMethodDescrObject *)callable)->d_method;
    return NULL;
}

static const PyWrapperDescrObject *slot_wrapper_of(PyObject *callable)
{
    if (Py_IS_TYPE(callable, &PyWrapperDescr_Type))
        return (PyWrapperDescrObject *)callable;
    if (Py_IS_TYPE(callable, method_wrapper))
        return ((struct wrapper *)callable)->descriptor;
    return NULL;
}

static bool is_class(PyObject *callable)
{
    return PyType_Check(callable) && Py_TYPE(callable)->tp_call == PyType_Type.tp_call;
}

/* False: it is none. */
static bool find_function(PyObject *callable, struct c_function *found)
{
    const PyMethodDef *method = method_of(callable);
    const PyWrapperDescrObject *slot;
    if (method) {
        *found = (struct c_function){(uint64_t)method->ml_meth, (uint64_t)method};
    } else if ((slot = slot_wrapper_of(callable))) {
        *found = (struct c_function){(uint64_t)slot->d_wrapped, (uint64_t)slot->d_base};
    } else if (is_class(callable)) {
        found->definition = (uint64_t)maker((PyTypeObject *)callable, &found->address);
    } else {
        found->address = (uint64_t)PyVectorcall_Function(callable);
        if (!found->address)
            found->address = (uint64_t)Py_TYPE(callable)->tp_call;
        found->definition = (uint64_t)Py_TYPE(callable);
    }
    return found->address && found->address != slot_call && found->address != slot_init &&
           found->address != slot_new;
}

/* The class of `self`, or its base, that has `method` in its table; NULL: a function, no method. */
static const char *owner(PyObject *self, const PyMethodDef *method)
{
    for (const PyTypeObject *type = self ? Py_TYPE(self) : NULL; type; type = type->tp_base)
        for (const PyMethodDef *m = type->tp_methods; m && m->ml_name; m++)
            if (m == method)
                return type->tp_name;
    return NULL;
}

static int write_method(char *text, PyObject *callable, const PyMethodDef *method)
{
    const char *of = NULL, *module = NULL;
    if (PyCFunction_Check(callable)) {
        const PyCFunctionObject *f = (PyCFunctionObject *)callable;
        of = owner(f->m_self, method);
        if (!of && f->m_module && PyUnicode_Check(f->m_module))
            module = PyUnicode_AsUTF8(f->m_module);
    } else {
        of = ((PyMethodDescrObject *)callable)->d_common.d_type->tp_name;
    }
    if (of)
        return snprintf(text, NAME_MAX_BYTES, "<method '%s' of '%s' objects>", method->ml_name, of);
    return snprintf(text, NAME_MAX_BYTES, "<built-in method %s%s%s>", module ? module : "",
                    module ? "." : "", method->ml_name);
}

/* As cProfile and `repr` name it. */
static int write_name(char *text, PyObject *callable, const struct c_function *function)
{
    const PyMethodDef *method = method_of(callable);
    if (method)
        return write_method(text, callable, method);
    const PyWrapperDescrObject *slot = slot_wrapper_of(callable);
    const char *name = slot ? slot->d_base->name : "__call__";
    const PyTypeObject *type =
        slot ? slot->d_common.d_type : (const PyTypeObject *)function->definition;
    if (is_class(callable))
        return snprintf(text, NAME_MAX_BYTES, "<class '%s'>", type->tp_name);
    return snprintf(text, NAME_MAX_BYTES, "<slot wrapper '%s' of '%s' objects>", name,
                    type->tp_name);
}

static __attribute__((noinline)) void announce_new(PyObject *callable,
                                                   const struct c_function *function)
{
    uint64_t key = map_hash(function->address ^ map_hash(function->definition)) | 1;
    uint64_t *known = map_put(&announced, key);
    if (!known || *known)
        return;
    char text[NAME_MAX_BYTES];
    PyObject *error = PyErr_GetRaisedException();
    int length = write_name(text, callable, function);
    PyErr_SetRaisedException(error);
    *known = 1;
    if (length > 0)
        announce(function->address, text,
                 length < NAME_MAX_BYTES ? (uint32_t)length : NAME_MAX_BYTES - 1);
}

PyObject *c_calls_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self;
    (void)n;
    (void)names;
    PyObject *callable = args[2];
    while (Py_IS_TYPE(callable, &PyMethod_Type))
        callable = PyMethod_GET_FUNCTION(callable);
    struct c_function function = {0};
    if (!Py_IS_TYPE(callable, &PyFunction_Type) && find_function(callable, &function)) {
        struct c_function *last =
            &cache[(function.address >> 4 ^ function.definition >> 3) % CACHE];
        if (last->address != function.address || last->definition != function.definition) {
            announce_new(callable, &function);
            *last = function;
        }
    } else {
        function.address = 0;
    }
    if (c_call_begins((uint64_t)args[0], function.address))
        Py_RETURN_NONE;
    return Py_NewRef(shadow_disable);
}

PyObject *c_calls_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self;
    (void)n;
    (void)names;
    c_call_returns((uint64_t)args[0], false);
    Py_RETURN_NONE;
}

PyObject *c_calls_on_raise(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self;
    (void)n;
    (void)names;
    c_call_returns((uint64_t)args[0], true);
    Py_RETURN_NONE;
}
