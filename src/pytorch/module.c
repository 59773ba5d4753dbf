/* pyhybrid._torch: PyTorch's autograd nodes, linked to the calls that made them (later.h).
 *
 * Loaded where the program has imported torch.  One callback of RecordFunction's, for backward functions alone, is added for the
 * process's life: to take one back while other threads run is not safe in all versions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "later.h"
#include "library.h"
#include "proof.h"

static struct torch_library library;
static struct torch_places places;
static const struct later_api *api;
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

static const struct origin_source source = {counter, maker};

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
static const struct later_api *native_api(void)
{
    PyObject *native = PyImport_ImportModule(LATER_MODULE), *capsule = NULL;
    const struct later_api *found = NULL;
    if (native && (capsule = PyObject_GetAttrString(native, LATER_CAPSULE)))
        found = PyCapsule_GetPointer(capsule, LATER_CAPSULE);
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

static PyMethodDef methods[] = {
    {"look", look, METH_O, look_doc},
    {"made", made, METH_NOARGS, made_doc},
    {"link", link_nodes, METH_O, link_doc},
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
