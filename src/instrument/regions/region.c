/* Source: PEP 343, PEP 590. */
#include "current_frame.h" /* first: it defines Py_BUILD_CORE */

#include "region.h"

#include "call_tree.h"
#include "compiler.h"
#include "filter.h"
#include "map.h"
#include "plain_text.h"
#include "region_stack.h"
#include "regions.h"

static PyTypeObject region_type, binder_type;
static PyObject *enter_or_leave(PyObject *o, PyObject *const *args, size_t n_flags,
                                PyObject *names);

struct region {
    PyObject head;
    vectorcallfunc call;
    PyObject *name, *attributes; /* attributes: a dict, or NULL */
    uint32_t id;
    struct regions *entered; /* the list that it is in; NULL: not entered */
    uint64_t frame;
    struct region
        *inner; /* for who enters it again meanwhile (recursion, a thread); NULL: nobody did */
};

static const struct region_session *session;
static PyObject *ids;       /* name -> number, for the process's life */
static uint32_t *announced; /* [number]: the session that has the name */
static size_t announced_bytes;
static _Atomic uint32_t n_ids;

static void announce(uint32_t id, PyObject *name, uint32_t generation)
{
    if (announced[id] == generation)
        return;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) {
        PyErr_Clear();
        text = "?";
        length = 1;
    }
    announced[id] = generation;
    session->announce(id, text, (uint32_t)length);
    PyObject *plain = memchr(text, 0, (size_t)length) ? plain_text(name, "strict") : NULL;
    session->emit(id, plain ? PyBytes_AS_STRING(plain) : text,
                  (uint32_t)(plain ? PyBytes_GET_SIZE(plain) : length));
    Py_XDECREF(plain);
}

/* One that is no longer used: most are made, entered and left in turn.  Guarded by the GIL. */
static struct region *spare;

/* NULL with an exception set. */
static struct region *new_region(PyTypeObject *type, PyObject *name, uint32_t id)
{
    struct region *self = spare;
    if (!self) {
        self = PyObject_New(struct region, type);
        if (!self)
            return NULL;
    } else {
        spare = NULL;
        PyObject_Init(&self->head, type);
    }
    self->call = enter_or_leave;
    self->name = Py_NewRef(name);
    self->attributes = NULL;
    self->id = id;
    self->entered = NULL;
    self->inner = NULL;
    return self;
}

/* The first that is not entered: itself, or one within. */
static struct region *not_entered(struct region *self)
{
    for (; self->entered; self = self->inner)
        if (!self->inner) {
            self->inner = new_region(Py_TYPE(&self->head), self->name, self->id);
            if (!self->inner)
                return NULL;
            self->inner->attributes = Py_XNewRef(self->attributes);
        }
    return self;
}

/* Which of them is left here: the last that this frame entered, else the last of all. */
static struct region *left_here(struct region *self)
{
    if (LIKELY(!self->inner))
        return self;
    uint64_t frame = (uint64_t)current_frame();
    struct region *own = NULL, *last = self;
    for (struct region *r = self; r; r = r->inner)
        if (r->entered) {
            last = r;
            own = r->frame == frame ? r : own;
        }
    return own ? own : last;
}

static PyObject *enter_in(PyObject *o, frame_t *frame)
{
    struct region *self = (struct region *)o;
    uint32_t generation = session->generation();
    if (!generation)
        return Py_NewRef(o);
    if (!LIKELY(self = not_entered(self)))
        return NULL;
    struct region_slot *slot =
        frame ? region_list_next(frame_region(self->id), (uint64_t)frame, FRAME_CODE(frame), false)
              : NULL;
    if (!slot)
        return Py_NewRef(o);
    announce(self->id, self->name, generation);
    self->entered = regions_this_thread;
    self->frame = (uint64_t)frame;
    /* In the list only then: a frame that is found running only now is found in the regions of the list. */
    region_enter(frame, slot);
    region_list_add(slot);
    return Py_NewRef(o);
}

static PyObject *enter(PyObject *o)
{
    return enter_in(o, current_frame());
}

static bool is_own(const frame_t *f)
{
    return FRAME_IS_ENTRY(f) || (filter_has_own() && filter_is_own(FRAME_CODE(f)));
}

PyObject *region_enter_caller(PyObject *module, PyObject *o)
{
    frame_t *frame = current_frame();
    (void)module;
    if (!Py_IS_TYPE(o, &region_type)) {
        PyErr_SetString(PyExc_TypeError, "a region is needed");
        return NULL;
    }
    while (frame && is_own(frame))
        frame = frame->previous;
    return enter_in(o, frame);
}

static void note_attributes(PyObject *attributes, uint32_t serial)
{
    unsigned char fields[REGION_ATTRIBUTES_MAX];
    size_t n = region_attributes(attributes, fields);
    if (n)
        region_note_attributes(serial, fields, (uint32_t)n);
}

static void leave(struct region *self)
{
    struct regions *r = self->entered;
    uint64_t word = frame_region(self->id);
    if (!r)
        return;
    self->entered = NULL;
    struct region_slot left = {0};
    for (uint32_t i = r->n; i--;)
        if (r->slots[i].frame == self->frame && r->slots[i].word == word) {
            left = r->slots[i];
            r->slots[i].frame = 0;
            break;
        }
    if (r == regions_this_thread)
        region_list_trim(r);
    uint32_t kept = left.frame ? region_leave(&left) : 0;
    if (kept && self->attributes)
        note_attributes(self->attributes, kept);
}

/* Bound, both are the region itself (see below). */
static PyObject *enter_or_leave(PyObject *o, PyObject *const *args, size_t n_flags, PyObject *names)
{
    (void)args;
    if (!PyVectorcall_NARGS(n_flags) && !names)
        return enter(o);
    leave(left_here((struct region *)o));
    Py_RETURN_NONE;
}

/* `__enter__` and `__exit__`.  Before 3.14 `with` binds both at each use, and a bound method is an object that is
 * made and freed (together 60 ns).  These bind to the region, which is what is called then: with nothing to enter,
 * with an exception's three values to leave. */
static struct binder {
    PyObject head;
    vectorcallfunc call;
} enter_binder, exit_binder;

static PyObject *bind(PyObject *self, PyObject *o, PyObject *type)
{
    (void)type;
    return Py_NewRef(o ? o : self);
}

/* With the region as an argument: `r.__exit__(...)` where its name is called, or `type(r).__exit__(r, ...)`. */
static PyObject *call_unbound(PyObject *self, PyObject *const *args, size_t n_flags,
                              PyObject *names)
{
    (void)names;
    if (!PyVectorcall_NARGS(n_flags) || !Py_IS_TYPE(args[0], &region_type)) {
        PyErr_SetString(PyExc_TypeError, "this is a method of a region");
        return NULL;
    }
    if (self == &enter_binder.head)
        return enter(args[0]);
    leave(left_here((struct region *)args[0]));
    Py_RETURN_NONE;
}

/* Names that `ids` holds, by address: literals are the same object each time. */
#define N_RECENT 64
static struct {
    PyObject *name;
    uint32_t id;
} recent[N_RECENT];

uint32_t region_new_number(void)
{
    return atomic_fetch_add(&n_ids, 1) + 1;
}

static uint32_t number_of(PyObject *name)
{
    size_t slot = (uintptr_t)name / sizeof(PyASCIIObject) % N_RECENT;
    if (recent[slot].name == name)
        return recent[slot].id;
    PyObject *known = PyDict_GetItemWithError(ids, name); /* borrowed */
    if (known)
        return (uint32_t)PyLong_AsUnsignedLong(known);
    if (PyErr_Occurred())
        return 0;
    uint32_t id = region_new_number();
    PyObject *number = PyLong_FromUnsignedLong(id);
    if (!map_memory_grow(&announced, &announced_bytes, (size_t)id + 1, sizeof *announced)) {
        Py_XDECREF(number);
        PyErr_NoMemory();
        return 0;
    }
    int failed = !number || PyDict_SetItem(ids, name, number);
    Py_XDECREF(number);
    if (failed)
        return 0;
    recent[slot].name = name;
    return recent[slot].id = id;
}

uint32_t region_announced(PyObject *name)
{
    uint32_t id = number_of(name);
    if (id)
        announce(id, name, session->generation());
    return id;
}

/* region(name, **attributes) */
static PyObject *make(PyObject *type, PyObject *const *args, size_t n_flags, PyObject *names)
{
    if (PyVectorcall_NARGS(n_flags) != 1 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "region() takes one name, a str, and keyword attributes");
        return NULL;
    }
    uint32_t id = number_of(args[0]);
    struct region *self = id ? new_region((PyTypeObject *)type, args[0], id) : NULL;
    if (!self)
        return NULL;
    if (names && PyTuple_GET_SIZE(names)) {
        self->attributes = PyDict_New();
        for (Py_ssize_t i = 0; self->attributes && i < PyTuple_GET_SIZE(names); i++)
            if (PyDict_SetItem(self->attributes, PyTuple_GET_ITEM(names, i), args[1 + i]))
                Py_CLEAR(self->attributes);
        if (!self->attributes) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

/* One that nobody left: perhaps an exception is on its way, which is not to be cleared. */
static void leave_unseen(struct region *self)
{
    PyObject *raised = PyErr_GetRaisedException();
    leave(self);
    PyErr_SetRaisedException(raised);
}

static void destroy(PyObject *o)
{
    struct region *self = (struct region *)o;
    if (self->entered)
        leave_unseen(self);
    Py_DECREF(self->name);
    Py_XDECREF(self->attributes);
    Py_XDECREF(self->inner);
    if (spare)
        PyObject_Free(self);
    else
        spare = self;
}

static PyObject *as_text(PyObject *o)
{
    return PyUnicode_FromFormat("region(%R)", ((struct region *)o)->name);
}

static PyTypeObject binder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyhybrid.region.method",
    .tp_basicsize = sizeof(struct binder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(struct binder, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = bind,
};
static struct binder enter_binder = {PyObject_HEAD_INIT(&binder_type).call = call_unbound};
static struct binder exit_binder = {PyObject_HEAD_INIT(&binder_type).call = call_unbound};

static PyTypeObject region_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyhybrid.region",
    .tp_basicsize = sizeof(struct region),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall = make,
    .tp_vectorcall_offset = offsetof(struct region, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = destroy,
    .tp_repr = as_text,
    .tp_doc =
        "region(name, **attributes)\n--\n\nA named part of a function, for `with`: a frame of its "
        "own in the tree.\n\nIt is suspended with the coroutine that entered it, and does "
        "nothing while no profiler runs.\nIt may be entered again before it is left.",
};

int region_add_type(PyObject *module, const struct region_session *of)
{
    session = of;
    if (!ids && !(ids = PyDict_New()))
        return -1;
    if (PyType_Ready(&binder_type) || PyType_Ready(&region_type) ||
        PyDict_SetItemString(region_type.tp_dict, "__enter__", &enter_binder.head) ||
        PyDict_SetItemString(region_type.tp_dict, "__exit__", &exit_binder.head))
        return -1;
    PyType_Modified(&region_type);
    return PyModule_AddObjectRef(module, "region", (PyObject *)&region_type);
}
