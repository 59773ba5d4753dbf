/* module.c - the extension module pyhybrid._symbolize: turns arguments into calls of symbolize.h.
 *
 * Its stub, with what each function promises, is pyhybrid/_symbolize.pyi.  Loaded by the finishing
 * process only.  Keeps to the limited API of 3.12.  Names are bytes of any kind in ELF files: what
 * is not UTF-8 becomes "\xNN", so that every name can be printed and stored.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "symbolize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const source_names[N_SOURCES] = {"symtab", "debugdata", "dynsym"};

struct symbols_object {
    PyObject_HEAD struct elf_symbols *symbols;
};

static PyObject *decode(const char *name, size_t length)
{
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)length, "backslashreplace");
}

static void set_error(int error, PyObject *path)
{
    switch (error) {
    case ENOEXEC:
        PyErr_SetString(PyExc_ValueError, "not an ELF64 little-endian program or library");
        break;
    case EBADMSG:
        PyErr_SetString(PyExc_ValueError, "damaged ELF file");
        break;
    case ESTALE:
        PyErr_SetString(PyExc_LookupError, "build-id differs");
        break;
    case ENOMEM:
        PyErr_NoMemory();
        break;
    default:
        errno = error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    }
}

static PyObject *symbols_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"path", "build_id", NULL};
    PyObject *given, *path = NULL;
    const char *build_id = NULL;
    struct elf_symbols *symbols;
    struct symbols_object *self = NULL;
    const char *c_path;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|z:ElfSymbols", keywords, &given, &build_id) ||
        !PyUnicode_FSConverter(given, &path))
        return NULL;
    c_path = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS r = elf_symbols_new(&symbols, c_path, build_id);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (r) {
        set_error(-r, given);
        return NULL;
    }
    self = (struct symbols_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->symbols = symbols;
    else
        elf_symbols_free(symbols);
    return (PyObject *)self;
}

static void symbols_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    elf_symbols_free(((struct symbols_object *)self)->symbols);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type); /* instances of heap types own their type */
}

static PyObject *resolve_one(const struct elf_symbols *symbols, PyObject *address)
{
    unsigned long long value = PyLong_AsUnsignedLongLong(address);
    struct symbol found;
    PyObject *name;

    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (!elf_symbols_find(symbols, value, &found))
        return Py_NewRef(Py_None);
    name = decode(found.name, found.name_length);
    if (!name)
        return NULL;
    return Py_BuildValue("(NKKs)", name, (unsigned long long)found.start,
                         (unsigned long long)found.size, source_names[found.source]);
}

static PyObject *symbols_resolve(PyObject *self, PyObject *addresses)
{
    Py_ssize_t n = PySequence_Size(addresses);
    PyObject *list = n < 0 ? NULL : PyList_New(n);

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *address = PySequence_GetItem(addresses, i), *answer = NULL;

        if (address)
            answer = resolve_one(((struct symbols_object *)self)->symbols, address);
        Py_XDECREF(address);
        if (answer)
            PyList_SetItem(list, i, answer);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *symbols_build_id(PyObject *self, void *closure)
{
    const char *hex = elf_symbols_build_id(((struct symbols_object *)self)->symbols);

    (void)closure;
    return hex ? PyUnicode_FromString(hex) : Py_NewRef(Py_None);
}

static PyObject *demangle(PyObject *module, PyObject *name)
{
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(name, &length);
    char *readable = NULL;
    PyObject *answer;

    (void)module;
    if (!bytes) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear(); /* a lone surrogate: no C++ name */
    } else if (strlen(bytes) == (size_t)length) {
        readable = symbol_demangle(bytes);
    }
    answer = readable ? decode(readable, strlen(readable)) : Py_NewRef(name);
    free(readable);
    return answer;
}

static PyMethodDef symbols_methods[] = {
    {"resolve", symbols_resolve, METH_O, "Name addresses: (name, start, size, source) or None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef symbols_getset[] = {
    {"build_id", symbols_build_id, NULL, "The file's build-id in hex, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot symbols_slots[] = {
    {Py_tp_new, symbols_new},
    {Py_tp_dealloc, symbols_dealloc},
    {Py_tp_methods, symbols_methods},
    {Py_tp_getset, symbols_getset},
    {Py_tp_doc, "The function symbols of one ELF file, for looking addresses up."},
    {0, NULL},
};

static PyType_Spec symbols_spec = {
    .name = "pyhybrid._symbolize.ElfSymbols",
    .basicsize = sizeof(struct symbols_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = symbols_slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &symbols_spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

    Py_XDECREF(type);
    return r;
}

static PyMethodDef module_methods[] = {
    {"demangle", demangle, METH_O, "A C++ symbol's readable name; any other name unchanged."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_symbolize",
    .m_doc = "Names for addresses of ELF files.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__symbolize(void);

PyMODINIT_FUNC PyInit__symbolize(void)
{
    return PyModuleDef_Init(&module_def);
}
