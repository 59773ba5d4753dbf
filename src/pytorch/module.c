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
    if (!api && !(api = native_api()))
        return NULL;
    if (!missing)
        shapes_note(share, api);
    return text_or_none(missing);
}

PyDoc_STRVAR(note_shapes_again_doc,
             "note_shapes_again(probability: float) -> bool\n\n"
             "Note them from now on, if they were noted before: in an earlier run, or by the "
             "parent of\nthis forked child.");

static PyObject *note_shapes_again(PyObject *self, PyObject *probability)
{
    (void)self;
    double share = PyFloat_AsDouble(probability);
    if (PyErr_Occurred())
        return NULL;
    if (shapes_are_proven())
        shapes_note(share, api);
    return PyBool_FromLong(shapes_are_proven());
}

PyDoc_STRVAR(noted_shapes_doc,
             "noted_shapes() -> tuple[list[tuple[str, tuple[int, ...], int, int]], "
             "list[tuple[int, int, int, bool, int]], int]\n\n"
             "What was noted, and no more from now on: operator, inputs as shapes.c has them, how "
             "often,\na number; by that number where: thread, node, and whether autograd did it "
             "later, how often;\nand how many calls found no room.");

/* Appends a new reference; false: there is none, or no room. */
static bool append(PyObject *to, PyObject *row)
{
    bool is_done = row && !PyList_Append(to, row);
    Py_XDECREF(row);
    return is_done;
}

static PyObject *shapes_row(const struct shapes_entry *e, uint32_t number)
{
    PyObject *words = PyTuple_New(e->n_words);
    for (uint32_t j = 0; words && j < e->n_words; j++) {
        PyObject *word = PyLong_FromUnsignedLongLong(e->word[j]);
        if (word)
            PyTuple_SET_ITEM(words, j, word);
        else
            Py_CLEAR(words);
    }
    return words ? Py_BuildValue("(sNKI)", e->name, words, (unsigned long long)e->n, number) : NULL;
}

static PyObject *noted_shapes(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    shapes_stop();
    uint64_t n_lost = 0;
    const struct shapes_entry *e;
    const struct shapes_place *p;
    PyObject *found = PyList_New(0), *where = PyList_New(0);
    for (uint32_t at = 0; found && (e = shapes_at(&at, &n_lost)); at++)
        if (!append(found, shapes_row(e, at)))
            Py_CLEAR(found);
    for (uint32_t at = 0; where && (p = shapes_place_at(&at)); at++)
        if (!append(where, Py_BuildValue("(IIINK)", p->of, p->thread, p->node,
                                         PyBool_FromLong(p->is_later), (unsigned long long)p->n)))
            Py_CLEAR(where);
    if (found && where)
        return Py_BuildValue("(NNK)", found, where, (unsigned long long)n_lost);
    Py_XDECREF(found);
    Py_XDECREF(where);
    return NULL;
}

/* --- memory ----------------------------------------------------------------------------------------- */

PyDoc_STRVAR(prove_memory_doc,
             "prove_memory(path: str) -> str | None\n\n"
             "Begin to find out what the CPU allocator of the libc10.so of this path returns "
             "(memory.c).\nNone, or what is missing in it.");

static PyObject *prove_memory(PyObject *self, PyObject *path)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(path);
    return text ? text_or_none(memory_proof_begin(text)) : NULL;
}

PyDoc_STRVAR(given_doc, "given(address: int, n: int) -> None\n\n"
                        "So many bytes were given out at that address just now.");

static PyObject *given(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long address, bytes;
    if (!PyArg_ParseTuple(args, "KK", &address, &bytes))
        return NULL;
    memory_proof_compare(address, bytes);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(follow_memory_doc,
             "follow_memory() -> str | None\n\n"
             "Follow all that is given out from now on.  None, or what is not proven.");

static PyObject *follow_memory(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (!api && !(api = native_api()))
        return NULL;
    const char *missing = memory_proof_end(api);
    return text_or_none(missing ? missing : memory_start());
}

PyDoc_STRVAR(stop_memory_doc, "stop_memory() -> None\n\nFollow nothing from now on.");

static PyObject *stop_memory(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    memory_stop();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(memory_totals_doc,
             "memory_totals(is_step: bool) -> tuple[int, int, int, int, int, int]\n\n"
             "Bytes: alive, the most in the step, the most ever, of which calls are known; pieces "
             "that\nwere lost, and their bytes.  A step begins, if `is_step`.");

static PyObject *totals_of_memory(PyObject *self, PyObject *is_step)
{
    (void)self;
    struct memory_totals t = is_step == Py_True ? memory_step() : memory_totals();
    return Py_BuildValue("(KKKKKK)", t.alive, t.step_peak, t.peak, t.noted_peak, t.n_lost,
                         t.lost_bytes);
}

PyDoc_STRVAR(mark_memory_doc, "memory_mark(moment: int) -> None\n\n"
                              "0: the first forward pass since a backward one begins, 1: a "
                              "backward one, 2: something\nafter that.");

static PyObject *mark_memory(PyObject *self, PyObject *moment)
{
    (void)self;
    long number = PyLong_AsLong(moment);
    if (PyErr_Occurred())
        return NULL;
    if (number < MEMORY_FORWARD || number > MEMORY_AFTER)
        return PyErr_Format(PyExc_ValueError, "no moment: %ld", number);
    memory_mark((enum memory_moment)number);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(memory_alive_doc,
             "memory_alive() -> bytes\n\nHow many bytes each call has that live: int64 each.");

static PyObject *alive_memory(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct memory_site site;
    uint32_t n = 0;
    while (memory_site(n, &site))
        n++;
    PyObject *found = PyBytes_FromStringAndSize(NULL, n * 8ll);
    for (uint32_t i = 0; found && i < n && memory_site(i, &site); i++)
        memcpy(PyBytes_AS_STRING(found) + i * 8ll, &site.alive, 8);
    return found;
}

PyDoc_STRVAR(
    memory_sites_doc,
    "memory_calls() -> list[tuple[int, int, bool, int, int, int, int, int, int]]\n\n"
    "Of each call its thread and node, and whether autograd did it later; bytes that "
    "live,\nthat it got, how often; alive at the peak, as a backward pass began, given back by its "
    "end.");

static PyObject *calls_memory(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct memory_site s;
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found && memory_site(i, &s); i++) {
        PyObject *row = Py_BuildValue("(IINLKKLLL)", s.thread, s.node, PyBool_FromLong(s.is_later),
                                      s.alive, s.allocated, s.calls, s.at_peak, s.kept, s.used);
        if (!row || PyList_Append(found, row))
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

PyDoc_STRVAR(oldest_memory_doc, "memory_oldest(call: int) -> list[tuple[int, int, int]]\n\n"
                                "Address, bytes and step of the oldest pieces of a call.");

#define OLDEST 16

static PyObject *oldest_memory(PyObject *self, PyObject *call)
{
    (void)self;
    unsigned long number = PyLong_AsUnsignedLong(call);
    if (PyErr_Occurred())
        return NULL;
    struct memory_piece piece[OLDEST];
    uint32_t n = memory_alive_of((uint32_t)number, piece, OLDEST);
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found && i < n; i++) {
        PyObject *row = Py_BuildValue("(KKI)", piece[i].address, piece[i].bytes, piece[i].step);
        if (!row || PyList_Append(found, row))
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

struct wanted {
    PyObject *types, *found;
};

/* No object is looked at but for its type, and those that are no others'. */
static int visit(PyObject *object, void *arg)
{
    struct wanted *w = arg;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->types); i++) {
        PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(w->types, i);
        if (Py_TYPE(object) == type && Py_REFCNT(object) > 0 && PyList_Append(w->found, object)) {
            Py_CLEAR(w->found);
            return 0;
        }
    }
    return 1;
}

PyDoc_STRVAR(objects_doc, "objects(types: tuple[type, ...]) -> list[object]\n\n"
                          "All objects that are exactly of these types.");

static PyObject *objects(PyObject *self, PyObject *types)
{
    (void)self;
    if (!PyTuple_Check(types))
        return PyErr_Format(PyExc_TypeError, "a tuple of types is wanted");
    struct wanted w = {types, PyList_New(0)};
    if (w.found)
        PyUnstable_GC_VisitObjects(visit, &w);
    return w.found;
}

static PyMethodDef methods[] = {
    {"prove_memory", prove_memory, METH_O, prove_memory_doc},
    {"given", given, METH_VARARGS, given_doc},
    {"follow_memory", follow_memory, METH_NOARGS, follow_memory_doc},
    {"stop_memory", stop_memory, METH_NOARGS, stop_memory_doc},
    {"memory_totals", totals_of_memory, METH_O, memory_totals_doc},
    {"memory_mark", mark_memory, METH_O, mark_memory_doc},
    {"memory_alive", alive_memory, METH_NOARGS, memory_alive_doc},
    {"memory_calls", calls_memory, METH_NOARGS, memory_sites_doc},
    {"memory_oldest", oldest_memory, METH_O, oldest_memory_doc},
    {"objects", objects, METH_O, objects_doc},
    {"prove_shapes", prove_shapes, METH_O, prove_shapes_doc},
    {"look_at_operators", look_at_operators, METH_O, look_at_operators_doc},
    {"tensor", tensor, METH_VARARGS, tensor_doc},
    {"expect", expect, METH_O, expect_doc},
    {"note_shapes", note_shapes, METH_O, note_shapes_doc},
    {"note_shapes_again", note_shapes_again, METH_O, note_shapes_again_doc},
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
