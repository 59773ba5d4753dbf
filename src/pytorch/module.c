/* pyhybrid._torch: PyTorch's autograd nodes, linked to the calls that made them (backward_work.h).
 *
 * Loaded where the program has imported torch.  One callback of RecordFunction's, for backward functions alone, is added for the
 * process's life: to take one back while other threads run is not safe in all versions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "backward_work.h"
#include "pytorch.h"

static struct torch_library library;
static struct torch_places places;
static const struct backward_api *api;
static bool is_added;

#define NUMBERS_MAX 64

/* --- what torch calls ------------------------------------------------------------------------------- */

static void *on_start(void **context, const void *record)
{
    *context = NULL;
    const char *r = record;
    api->begin(*(const uint64_t *)(r + places.maker), *(const uint64_t *)(r + places.number),
               (uint64_t)record);
    return context;
}

static void on_end(const void *record, void *context)
{
    (void)context;
    api->end((uint64_t)record, library.name(record));
}

static const uint64_t *counter(void)
{
    return torch_library_tls(&library, places.counter);
}

static uint64_t maker(void)
{
    return library.thread_id();
}

static const struct maker_source source = {counter, maker};

/* --- the module ------------------------------------------------------------------------------------- */

PyDoc_STRVAR(
    look_doc,
    "look(path: str) -> str | None\n\n"
    "Note what nodes run on this thread from now on, in the libtorch_cpu.so of this path.\n"
    "None, or what is missing in it.");

static PyObject *look(PyObject *self, PyObject *path)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(path);
    if (!text)
        return NULL;
    const char *missing = torch_library_find(&library, text);
    if (missing)
        return PyUnicode_FromString(missing);
    proof_begin(&library);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(made_doc, "made() -> None\n\nA node was made just now.");

static PyObject *made(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    proof_compare();
    Py_RETURN_NONE;
}

/* NULL with an exception set. */
static const struct backward_api *native_api(void)
{
    PyObject *native = PyImport_ImportModule(LATER_MODULE), *capsule = NULL;
    const struct backward_api *found = NULL;
    if (native && (capsule = PyObject_GetAttrString(native, BACKWARD_CAPSULE)))
        found = PyCapsule_GetPointer(capsule, BACKWARD_CAPSULE);
    Py_XDECREF(native);
    Py_XDECREF(capsule);
    return found;
}

PyDoc_STRVAR(
    link_doc,
    "link(numbers: tuple[int, ...]) -> str | None\n\n"
    "Look no more; `numbers` are those of the nodes that ran.  From now on nodes are linked.\n"
    "None, or what is not proven: they are not.");

static PyObject *link_nodes(PyObject *self, PyObject *numbers)
{
    (void)self;
    uint64_t number[NUMBERS_MAX];
    proof_end();
    Py_ssize_t n = PyTuple_Check(numbers) ? PyTuple_GET_SIZE(numbers) : NUMBERS_MAX + 1;
    if (n > NUMBERS_MAX)
        return PyErr_Format(PyExc_TypeError, "a tuple of some numbers is wanted");
    for (Py_ssize_t i = 0; i < n; i++) {
        number[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(numbers, i));
        if (PyErr_Occurred())
            return NULL;
    }
    struct torch_places found;
    const char *missing = proof_of(number, (uint32_t)n, &found);
    if (missing)
        return PyUnicode_FromString(missing);
    if (!api && !(api = native_api()))
        return NULL;
    if (!is_added) {
        places = found;
        struct record_callback c = {.start = on_start, .end = on_end, .sampling_probability = 1.0};
        c.scopes[SCOPE_BACKWARD] = true;
        library.add_global_callback(c);
        is_added = true;
    }
    api->watch(&source);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(link_again_doc,
             "link_again() -> bool\n\n"
             "Link nodes from now on, if they were linked before: in an earlier run, or by the "
             "parent of\nthis forked child.");

static PyObject *link_nodes_again(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (is_added)
        api->watch(&source);
    return PyBool_FromLong(is_added);
}

/* --- shapes ----------------------------------------------------------------------------------------- */

#define SIZES_MAX 16

/* The numbers of a tuple; their count, or -1 with an exception set. */
static Py_ssize_t numbers_of(PyObject *tuple, uint64_t *to)
{
    Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : SIZES_MAX + 1;
    if (n > SIZES_MAX) {
        PyErr_SetString(PyExc_TypeError, "a tuple of some numbers is wanted");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        to[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(tuple, i));
    return PyErr_Occurred() ? -1 : n;
}

static PyObject *text_or_none(const char *text)
{
    if (text)
        return PyUnicode_FromString(text);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(prove_shapes_doc,
             "prove_shapes(path: str) -> str | None\n\n"
             "Begin to find out where the libtorch_cpu.so of this path has shapes (shapes.c).\n"
             "None, or what is missing in it.");

static PyObject *prove_shapes(PyObject *self, PyObject *path)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(path);
    if (!text)
        return NULL;
    const char *missing = torch_library_find(&library, text);
    if (!missing)
        shapes_proof_begin(&library);
    return text_or_none(missing);
}

PyDoc_STRVAR(look_at_operators_doc,
             "look_at_operators(with_inputs: bool) -> None\n\n"
             "Note the operators of this thread from now on, with what they are called with or "
             "without.");

static PyObject *look_at_operators(PyObject *self, PyObject *with_inputs)
{
    (void)self;
    shapes_proof_pass(with_inputs == Py_True);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(tensor_doc, "tensor(address: int, sizes: tuple, strides: tuple, type: int) -> None\n\n"
                         "A tensor whose object is there.");

static PyObject *tensor(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long address;
    PyObject *sizes, *strides;
    unsigned type;
    uint64_t size[SIZES_MAX], stride[SIZES_MAX];
    if (!PyArg_ParseTuple(args, "KOOI", &address, &sizes, &strides, &type))
        return NULL;
    Py_ssize_t n = numbers_of(sizes, size), m = n < 0 ? -1 : numbers_of(strides, stride);
    if (m < 0)
        return NULL;
    if (n != m)
        return PyErr_Format(PyExc_TypeError, "a size and a stride for each dimension are wanted");
    shapes_proof_tensor(address, size, stride, (uint32_t)n, type);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(expect_doc, "expect(inputs: tuple[int, ...]) -> None\n\n"
                         "The next operator has these tensors, by address; 0: something else.");

static PyObject *expect(PyObject *self, PyObject *inputs)
{
    (void)self;
    uint64_t address[SIZES_MAX];
    Py_ssize_t n = numbers_of(inputs, address);
    if (n < 0)
        return NULL;
    shapes_proof_expect(address, (uint32_t)n);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(note_shapes_doc,
             "note_shapes(probability: float) -> str | None\n\n"
             "Note such a share of all calls of operators from now on, with their shapes.\n"
             "None, or what is not proven: none are noted.");

static PyObject *note_shapes(PyObject *self, PyObject *probability)
{
    (void)self;
    double share = PyFloat_AsDouble(probability);
    const char *missing = shapes_proof_end();
    if (PyErr_Occurred())
        return NULL;
    if (!missing)
        shapes_note(share);
    return text_or_none(missing);
}

PyDoc_STRVAR(noted_shapes_doc,
             "noted_shapes() -> tuple[list[tuple[str, tuple[int, ...], int]], int]\n\n"
             "What was noted, and no more from now on: operator, inputs as shapes.c has them, how "
             "often;\nand how many calls found no room.");

static PyObject *noted_shapes(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    shapes_stop();
    uint64_t n_lost = 0;
    const struct shapes_entry *e;
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found && (e = shapes_at(i, &n_lost)); i++) {
        PyObject *words = PyTuple_New(e->n_words);
        for (uint32_t j = 0; words && j < e->n_words; j++) {
            PyObject *word = PyLong_FromUnsignedLongLong(e->word[j]);
            if (word)
                PyTuple_SET_ITEM(words, j, word);
            else
                Py_CLEAR(words);
        }
        PyObject *row =
            words ? Py_BuildValue("(sNK)", e->name, words, (unsigned long long)e->n) : NULL;
        if (!row || PyList_Append(found, row))
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found ? Py_BuildValue("(NK)", found, (unsigned long long)n_lost) : NULL;
}

static PyMethodDef methods[] = {
    {"prove_shapes", prove_shapes, METH_O, prove_shapes_doc},
    {"look_at_operators", look_at_operators, METH_O, look_at_operators_doc},
    {"tensor", tensor, METH_VARARGS, tensor_doc},
    {"expect", expect, METH_O, expect_doc},
    {"note_shapes", note_shapes, METH_O, note_shapes_doc},
    {"noted_shapes", noted_shapes, METH_NOARGS, noted_shapes_doc},
    {"look", look, METH_O, look_doc},
    {"made", made, METH_NOARGS, made_doc},
    {"link", link_nodes, METH_O, link_doc},
    {"link_again", link_nodes_again, METH_NOARGS, link_again_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "pyhybrid._torch",
    .m_doc = "Links PyTorch's autograd nodes to the calls that made them.", .m_methods = methods,
    .m_slots = slots};

PyMODINIT_FUNC PyInit__torch(void);

PyMODINIT_FUNC PyInit__torch(void)
{
    return PyModuleDef_Init(&definition);
}
