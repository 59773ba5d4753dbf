/* method_names.c - the names by which Python reaches C functions, read from the live interpreter.
 *
 * Symbol tables are silent about stripped extensions; the interpreter is not.  Of everything that its garbage
 * collector knows are looked at: builtin functions, method and getset descriptors, slot wrappers, and the
 * types that these belong to.  A function of several names is reported several times, at most
 * METHOD_NAMES_MAX + 1 times: one that has more is shared code (a binding generator's dispatcher).
 *
 *     torch._C._nn.linear              a builtin function: its module and name
 *     numpy.ndarray.sort               a method: its type and name
 *     torch._C.TensorBase.grad.__get__ a getter (__set__: the setter)
 *     numpy.ndarray.__add__            a slot, by its wrapper
 *     numpy.ndarray.tp_dealloc         a slot that has no wrapper
 *
 * Nothing is imported, created for the program or kept alive; no code of the program runs: names are plain
 * strings of the objects, those that are not ASCII are left out.
 *
 * Sources: Objects/descrobject.c, Objects/methodobject.c, Modules/gcmodule.c (Python/gc.c) of CPython 3.12 to 3.15.
 * Context: with the GIL.  Ends after METHOD_NAMES_BUDGET_NS, however many objects there are.
 */
#include "instrument.h"

#include <Python.h>
#include <stdio.h>

#include "clock.h"
#include "map.h"

#define NAME_MAX_BYTES 256
#define LOOK_AT_CLOCK 4096 /* objects */

struct search {
    const struct function_names *to;
    struct map reported; /* start -> how often */
    struct map types;    /* that were looked at */
    PyObject *module_key;
    uint64_t until_ns;
    uint32_t n;
};

static const char *ascii(PyObject *text)
{
    return text && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text)
               ? (const char *)PyUnicode_1BYTE_DATA(text)
               : NULL;
}

/* `of` may be NULL. */
static void report(struct search *s, const void *function, const char *of, const char *name)
{
    uint64_t start = (uint64_t)function;
    if (!start || !of || !name || !s->to->wanted(s->to->arg, start))
        return;
    uint64_t *times = map_put(&s->reported, start);
    if (!times || (*times)++ > METHOD_NAMES_MAX)
        return;
    char text[NAME_MAX_BYTES];
    int length = snprintf(text, sizeof text, "%s.%s", of, name);
    if (length > 0)
        s->to->add(s->to->arg, start, text,
                   length < NAME_MAX_BYTES ? (uint32_t)length : NAME_MAX_BYTES - 1);
}

/* The type's full name, in `text` if it has to be put together; NULL: not ASCII.  A dictionary whose keys
 * are plain strings compares them without running code. */
static const char *type_name(const struct search *s, PyTypeObject *type, char *text)
{
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
        return type->tp_name;
    const char *qualname = ascii(((PyHeapTypeObject *)type)->ht_qualname), *module = NULL;
    if (type->tp_dict)
        module = ascii(PyDict_GetItemWithError(type->tp_dict, s->module_key));
    if (!qualname || !module || !strcmp(module, "builtins"))
        return qualname;
    int length = snprintf(text, NAME_MAX_BYTES, "%s.%s", module, qualname);
    return length > 0 && length < NAME_MAX_BYTES ? text : qualname;
}

/* NULL if the slot is inherited: it has its name from the base. */
static void *own(void *slot, void *of_base)
{
    return slot == of_base ? NULL : slot;
}

/* Slots without a wrapper. */
static void look_at_slots(struct search *s, PyTypeObject *type)
{
    static PyTypeObject no_type;
    static PyBufferProcs no_buffer;
    char text[NAME_MAX_BYTES];
    const char *name = type_name(s, type, text);
    const PyTypeObject *base = type->tp_base ? type->tp_base : &no_type;
    const PyBufferProcs *buffer = type->tp_as_buffer ? type->tp_as_buffer : &no_buffer;
    const PyBufferProcs *of_base = base->tp_as_buffer ? base->tp_as_buffer : &no_buffer;
    report(s, own((void *)type->tp_new, (void *)base->tp_new), name, "__new__");
    report(s, own((void *)type->tp_dealloc, (void *)base->tp_dealloc), name, "tp_dealloc");
    report(s, own((void *)type->tp_traverse, (void *)base->tp_traverse), name, "tp_traverse");
    report(s, own((void *)type->tp_clear, (void *)base->tp_clear), name, "tp_clear");
    report(s, own((void *)type->tp_vectorcall, (void *)base->tp_vectorcall), name, "tp_vectorcall");
    report(s, own((void *)buffer->bf_getbuffer, (void *)of_base->bf_getbuffer), name,
           "bf_getbuffer");
    report(s, own((void *)buffer->bf_releasebuffer, (void *)of_base->bf_releasebuffer), name,
           "bf_releasebuffer");
}

/* The type and its bases. */
static void look_at_type(struct search *s, PyTypeObject *type)
{
    for (; type; type = type->tp_base) {
        uint64_t *seen = map_put(&s->types, (uint64_t)type);
        if (!seen || *seen)
            return;
        *seen = 1;
        look_at_slots(s, type);
    }
}

static void look_at_builtin(struct search *s, const PyCFunctionObject *f)
{
    if (f->m_ml->ml_flags & METH_CLASS) /* bound to any subclass: its descriptor has the name */
        return;
    char text[NAME_MAX_BYTES];
    const char *of = ascii(f->m_module);
    if (f->m_self && PyType_Check(f->m_self)) /* METH_STATIC */
        of = type_name(s, (PyTypeObject *)f->m_self, text);
    report(s, (void *)f->m_ml->ml_meth, of, f->m_ml->ml_name);
}

static void look_at_getset(struct search *s, const PyGetSetDescrObject *d, const char *type)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s.__get__", d->d_getset->name);
    report(s, (void *)d->d_getset->get, type, name);
    snprintf(name, sizeof name, "%s.__set__", d->d_getset->name);
    report(s, (void *)d->d_getset->set, type, name);
}

static bool is_descriptor(PyTypeObject *type)
{
    return type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type ||
           type == &PyGetSetDescr_Type || type == &PyWrapperDescr_Type;
}

static void look_at_descriptor(struct search *s, PyObject *object)
{
    char text[NAME_MAX_BYTES];
    PyTypeObject *kind = Py_TYPE(object), *type = ((PyDescrObject *)object)->d_type;
    const char *of = type_name(s, type, text);
    look_at_type(s, type);
    if (kind == &PyGetSetDescr_Type) {
        look_at_getset(s, (PyGetSetDescrObject *)object, of);
    } else if (kind == &PyWrapperDescr_Type) {
        const PyWrapperDescrObject *d = (PyWrapperDescrObject *)object;
        report(s, d->d_wrapped, of, d->d_base->name);
    } else {
        const PyMethodDef *method = ((PyMethodDescrObject *)object)->d_method;
        report(s, (void *)method->ml_meth, of, method->ml_name);
    }
}

/* 0: enough of it. */
static int visit(PyObject *object, void *arg)
{
    struct search *s = arg;
    PyTypeObject *kind = Py_TYPE(object);
    if (is_descriptor(kind))
        look_at_descriptor(s, object);
    else if (kind == &PyCFunction_Type || kind == &PyCMethod_Type)
        look_at_builtin(s, (PyCFunctionObject *)object);
    else if (PyType_Check(object))
        look_at_type(s, (PyTypeObject *)object);
    return ++s->n % LOOK_AT_CLOCK || clock_now_ns() < s->until_ns;
}

void method_names_collect(const struct function_names *to)
{
    PyObject *error = PyErr_GetRaisedException();
    struct search s = {.to = to, .until_ns = clock_now_ns() + METHOD_NAMES_BUDGET_NS};
    s.module_key = PyUnicode_InternFromString("__module__");
    if (s.module_key)
        PyUnstable_GC_VisitObjects(visit, &s);
    Py_XDECREF(s.module_key);
    map_clear(&s.reported);
    map_clear(&s.types);
    PyErr_SetRaisedException(error);
}
