/* method_swap.c - calls of a C function of the interpreter's own modules go through one of ours.
 *
 * The function object stays as it is, whoever holds it: only what its method definition points to changes, which
 * every call reads (CPython Objects/methodobject.c, cfunction_enter_call).
 *
 * Context: with the GIL.
 */
#include "native.h"

static PyMethodDef *find(const struct method_swap *m)
{
    PyObject *module = PyImport_ImportModule(m->module);
    PyObject *function = module ? PyObject_GetAttrString(module, m->name) : NULL;
    PyMethodDef *def = NULL; /* static, in the module's file, which is never unloaded */
    if (function && PyCFunction_CheckExact(function))
        def = ((PyCFunctionObject *)function)->m_ml;
    Py_XDECREF(function);
    Py_XDECREF(module);
    PyErr_Clear();
    return def;
}

void method_swap_in(struct method_swap *m)
{
    if (!m->def)
        m->def = find(m);
    if (!m->def || m->def->ml_flags != m->flags || m->def->ml_meth == m->ours)
        return;
    m->original = m->def->ml_meth;
    m->def->ml_meth = m->ours;
}

void method_swap_out(struct method_swap *m)
{
    if (m->def && m->def->ml_meth == m->ours)
        m->def->ml_meth = m->original;
}
