/* module.c - the extension module pyhybrid._symbolize: turns arguments into calls of symbolize.h
 * and dwarf_lines.h.
 *
 * Its stub, with what each function promises, is pyhybrid/_symbolize.pyi.  Loaded by the finishing
 * process only.  Keeps to the limited API of 3.12.  Names are bytes of any kind in ELF files: what
 * is not UTF-8 becomes "\xNN", so that every name can be printed and stored.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "debug_file.h"
#include "dwarf_lines.h"
#include "symbolize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const source_names[N_SOURCES] = {"symtab",    "debug file", "dynsym",
                                                    "debugdata", "plt",        "exported data"};

struct symbols_object {
    PyObject_HEAD struct elf_symbols *symbols;
};

struct dwarf_lines_object {
    PyObject_HEAD struct dwarf_lines *lines;
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
    static char *keywords[] = {"path", "build_id", "debug_roots", NULL};
    PyObject *given, *path = NULL;
    const char *build_id = NULL, *roots = DEBUG_FILE_ROOTS;
    struct elf_symbols *symbols;
    struct symbols_object *self = NULL;
    const char *c_path;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zs:ElfSymbols", keywords, &given, &build_id,
                                     &roots) ||
        !PyUnicode_FSConverter(given, &path))
        return NULL;
    c_path = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS r = elf_symbols_new(&symbols, c_path, build_id, roots);
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

/* The symbol's name; of a stub, "name@plt"; of an object, with the place in it: "_ZTV1A[3]", in its
 * third virtual table "_ZTV1A[2][3]". */
static PyObject *spell(const struct symbol *s)
{
    PyObject *name = decode(s->name, s->name_length), *element;
    const char *prefix = s->of_type ? "_ZTV" : "";

    if (!name || (s->source != SOURCE_EXPORTED_DATA && s->source != SOURCE_PLT))
        return name;
    element = s->source == SOURCE_PLT ? PyUnicode_FromFormat("%U@plt", name)
              : s->table ? PyUnicode_FromFormat("%s%U[%u][%u]", prefix, name, s->table, s->slot)
                         : PyUnicode_FromFormat("%s%U[%u]", prefix, name, s->slot);
    Py_DECREF(name);
    return element;
}

static PyObject *build_symbol(const void *row)
{
    const struct symbol *found = row;
    PyObject *name;

    if (!found->name)
        return Py_NewRef(Py_None);
    name = spell(found);
    if (!name)
        return NULL;
    return Py_BuildValue("(NKKs)", name, (unsigned long long)found->start,
                         (unsigned long long)found->size, source_names[found->source]);
}

/* Fills addresses[0..n) from a sequence of integers. */
static int read_addresses(PyObject *sequence, uint64_t *addresses, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *address = PySequence_GetItem(sequence, i);

        if (!address)
            return -1;
        addresses[i] = PyLong_AsUnsignedLongLong(address);
        Py_DECREF(address);
        if (addresses[i] == (unsigned long long)-1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* A list of what `build` makes of each of `n` rows of `size` bytes. */
static PyObject *build_list(const void *rows, size_t n, size_t size,
                            PyObject *(*build)(const void *row))
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = build((const char *)rows + i * size);

        if (item)
            PyList_SetItem(list, (Py_ssize_t)i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* What `find` knows of a sequence of addresses, as a list. */
static PyObject *resolve(PyObject *self, PyObject *sequence,
                         PyObject *(*find)(PyObject *self, const uint64_t *addresses, size_t n))
{
    Py_ssize_t n = PySequence_Size(sequence);
    uint64_t *addresses = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*addresses));
    PyObject *list = NULL;

    if (n >= 0 && !addresses)
        PyErr_NoMemory();
    if (addresses && read_addresses(sequence, addresses, n) == 0)
        list = find(self, addresses, (size_t)n);
    free(addresses);
    return list;
}

static PyObject *find_symbols(PyObject *self, const uint64_t *addresses, size_t n)
{
    struct elf_symbols *symbols = ((struct symbols_object *)self)->symbols;
    struct symbol *found = calloc(n + 1, sizeof(*found));
    PyObject *list = NULL;
    int r = found ? elf_symbols_find_all(symbols, addresses, n, found) : -ENOMEM;

    if (r)
        set_error(-r, NULL);
    else
        list = build_list(found, n, sizeof(*found), build_symbol);
    free(found);
    return list;
}

static PyObject *symbols_resolve(PyObject *self, PyObject *sequence)
{
    return resolve(self, sequence, find_symbols);
}

static PyObject *symbols_build_id(PyObject *self, void *closure)
{
    const char *hex = elf_symbols_build_id(((struct symbols_object *)self)->symbols);

    (void)closure;
    return hex ? PyUnicode_FromString(hex) : Py_NewRef(Py_None);
}

static PyObject *lines_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"path", "build_id", "debug_roots", "limit_bytes", NULL};
    PyObject *given, *path = NULL;
    const char *build_id = NULL, *roots = DEBUG_FILE_ROOTS;
    unsigned long long limit_bytes = 0;
    struct dwarf_lines *lines;
    struct dwarf_lines_object *self;
    const char *c_path;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zsK:DwarfLines", keywords, &given, &build_id,
                                     &roots, &limit_bytes) ||
        !PyUnicode_FSConverter(given, &path))
        return NULL;
    c_path = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS r = dwarf_lines_new(&lines, c_path, build_id, roots, limit_bytes);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (r) {
        set_error(-r, given);
        return NULL;
    }
    self = (struct dwarf_lines_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->lines = lines;
    else
        dwarf_lines_free(lines);
    return (PyObject *)self;
}

static void lines_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    dwarf_lines_free(((struct dwarf_lines_object *)self)->lines);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *decode_or_none(const char *name)
{
    return name ? decode(name, strlen(name)) : Py_NewRef(Py_None);
}

/* A path of DWARF, which may be relative to the folder where the compiler ran. */
static PyObject *decode_path(const char *directory, const char *path)
{
    PyObject *folder, *name, *joined = NULL;
    size_t length = directory ? strlen(directory) : 0;

    if (!path || path[0] == '/' || length == 0 ||
        (strncmp(path, directory, length) == 0 && path[length] == '/'))
        return decode_or_none(path);
    folder = decode(directory, length);
    name = decode(path, strlen(path));
    if (folder && name)
        joined = PyUnicode_FromFormat("%U/%U", folder, name);
    Py_XDECREF(folder);
    Py_XDECREF(name);
    return joined;
}

/* (name, file, line), of a function. */
static PyObject *build_function(const char *directory, const struct source_function *function)
{
    return Py_BuildValue("(NNI)", decode_or_none(function->name),
                         decode_path(directory, function->file), function->line);
}

/* [(inlined function, call file, call line), ...], innermost first. */
static PyObject *list_inlined(const struct source_position *position)
{
    const struct inlined_call *call = position->inlined;
    PyObject *list = PyList_New(0);

    for (; list && call; call = call->caller) {
        PyObject *file = decode_path(position->directory, call->call_file);
        PyObject *item = Py_BuildValue(
            "(NNI)", build_function(position->directory, &call->function), file, call->call_line);

        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *build_position(const void *row)
{
    const struct source_position *position = row;

    if (!position->found)
        return Py_NewRef(Py_None);
    return Py_BuildValue("(NINN)", decode_path(position->directory, position->file), position->line,
                         list_inlined(position),
                         build_function(position->directory, &position->function));
}

static PyObject *find_positions(PyObject *self, const uint64_t *addresses, size_t n)
{
    struct dwarf_lines *lines = ((struct dwarf_lines_object *)self)->lines;
    struct source_position *positions = calloc(n + 1, sizeof(*positions));
    PyObject *list = NULL;

    if (!positions || dwarf_lines_find(lines, addresses, n, positions) != 0)
        PyErr_NoMemory();
    else
        list = build_list(positions, n, sizeof(*positions), build_position);
    free(positions);
    return list;
}

static PyObject *lines_resolve(PyObject *self, PyObject *sequence)
{
    return resolve(self, sequence, find_positions);
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

static PyMethodDef lines_methods[] = {
    {"resolve", lines_resolve, METH_O,
     "Source positions of addresses: (file, line, inlined, function) or None; a function is (name, "
     "file, line), an inlined one (function, call file, call line), innermost first."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot lines_slots[] = {
    {Py_tp_new, lines_new},
    {Py_tp_dealloc, lines_dealloc},
    {Py_tp_methods, lines_methods},
    {Py_tp_doc, "The source lines and inlined functions of one ELF file, from DWARF."},
    {0, NULL},
};

static PyType_Spec lines_spec = {
    .name = "pyhybrid._symbolize.DwarfLines",
    .basicsize = sizeof(struct dwarf_lines_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = lines_slots,
};

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

    Py_XDECREF(type);
    return r;
}

static int module_exec(PyObject *module)
{
    int r = add_type(module, &symbols_spec);

    return r ? r : add_type(module, &lines_spec);
}

static PyMethodDef module_methods[] = {
    {"demangle", demangle, METH_O, "A native symbol's readable name; any other name unchanged."},
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
