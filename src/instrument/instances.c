#include "instances.h"

#include <string.h>

#include "compiler.h"
#include "map.h"
#include "region.h"
#include "shadow_stack.h"

#define DEPTH_MAX 200     /* of objects in one another */
#define SAME_NAME_MAX 100 /* roots of one class that are distinguished */
#define CALLERS_MAX 8     /* between a method and what is called for its object */
#define ENCLOSING_MAX 256 /* frames that are looked at for the object in which one runs */
#define HOLDER_DEPTH 3    /* of a list below what holds it */
#define HELD_MAX 1000     /* objects that are looked at for one in a list */

static PyObject *methods, *children, *wrappers, *lists, *named_inside;
static PyObject *awaited, *on_found, *on_loaded;
static PyObject *roots; /* a dict: the names of roots that are alive */
static uint32_t n_walks;

/* --- code objects ---------------------------------------------------------------------------------- */

/* Of code objects whether they are methods by their names: direct-mapped, the verdict in the lowest bit. */
#define N_VERDICTS 1024
static uint64_t verdicts[N_VERDICTS];

static uint64_t *verdict_of(uint64_t code)
{
    return &verdicts[code >> 6 & (N_VERDICTS - 1)];
}

void instances_forget_code(uint64_t code)
{
    if ((*verdict_of(code) & ~1ull) == code)
        *verdict_of(code) = 0;
    if (code == instance_method)
        atomic_store(&instance_method, 0);
}

/* A generator's body is not: it runs where its values are taken, and none of its turns is a call. */
static __attribute__((noinline)) bool judge(uint64_t code)
{
    const PyCodeObject *c = (const PyCodeObject *)code;
    bool is_method = methods && c->co_argcount && !is_generator(c) &&
                     PyUnicode_Tailmatch(c->co_qualname, methods, 0, PY_SSIZE_T_MAX, 1) > 0;
    *verdict_of(code) = code | is_method;
    return is_method;
}

bool instances_run(uint64_t code)
{
    uint64_t method = atomic_load_explicit(&instance_method, memory_order_relaxed);
    if (LIKELY(!method) || code == method)
        return method;
    uint64_t verdict = *verdict_of(code);
    return LIKELY((verdict & ~1ull) == code) ? verdict & 1 : judge(code);
}

/* --- objects --------------------------------------------------------------------------------------- */

/* Is the method that of its class? */
static bool is_instance(PyObject *o)
{
    const PyCodeObject *code = (const PyCodeObject *)instance_method;
    PyObject *function = code ? _PyType_Lookup(Py_TYPE(o), code->co_name) : NULL; /* borrowed */
    return function && PyFunction_Check(function) &&
           PyFunction_GET_CODE(function) == (PyObject *)code;
}

/* The dictionary of those below it, borrowed; NULL: it has none. */
static PyObject *children_of(PyObject *o)
{
    PyObject *attributes = PyObject_GenericGetDict(o, NULL);
    PyObject *found = attributes && PyDict_CheckExact(attributes)
                          ? PyDict_GetItemWithError(attributes, children)
                          : NULL;
    PyErr_Clear();
    Py_XDECREF(attributes);
    return found && PyDict_Check(found) ? found : NULL;
}

static PyObject *died(PyObject *address, PyObject *weak);
static PyMethodDef died_method = {"died", died, METH_O, NULL};

static void take_out(struct instance *i)
{
    PyObject *weak = i->weak, *path = i->path;
    atomic_store(&i->word, 0);
    i->weak = i->path = NULL;
    if (i->is_root && roots && path && PyDict_DelItem(roots, path))
        PyErr_Clear();
    Py_XDECREF(weak);
    Py_XDECREF(path);
}

/* Called by the interpreter where an object dies, before its memory is anyone else's. */
static PyObject *died(PyObject *address, PyObject *weak)
{
    struct instance *i = instance_find(PyLong_AsUnsignedLongLong(address));
    if (i && i->weak == weak)
        take_out(i);
    Py_RETURN_NONE;
}

/* A new reference to what stays valid until `o` dies; NULL: none is to be had. */
static PyObject *watch(PyObject *o)
{
    PyObject *address = PyLong_FromVoidPtr(o);
    PyObject *callback = address ? PyCFunction_New(&died_method, address) : NULL;
    PyObject *weak = callback ? PyWeakref_NewRef(o, callback) : NULL;
    Py_XDECREF(address);
    Py_XDECREF(callback);
    return weak;
}

/* The name of its class.  Where all such objects are of one class, what is in an attribute of theirs knows that which they
 * were made of: by methods in C, so nothing of Python's runs.  NULL: no memory. */
static PyObject *class_name(PyObject *o)
{
    PyObject *name = PyType_GetName(Py_TYPE(o));
    Py_ssize_t n = named_inside ? PyTuple_GET_SIZE(named_inside) : 0;
    if (!name || n < 2 || PyUnicode_Compare(name, PyTuple_GET_ITEM(named_inside, 0)))
        return name;
    PyObject *attributes = PyObject_GenericGetDict(o, NULL);
    PyObject *inside =
        attributes && PyDict_CheckExact(attributes)
            ? Py_XNewRef(PyDict_GetItemWithError(attributes, PyTuple_GET_ITEM(named_inside, 1)))
            : NULL;
    Py_XDECREF(attributes);
    for (Py_ssize_t i = 2; inside && i < n; i++)
        Py_SETREF(inside, PyObject_CallMethodNoArgs(inside, PyTuple_GET_ITEM(named_inside, i)));
    PyErr_Clear();
    if (inside && PyUnicode_CheckExact(inside) && PyUnicode_GET_LENGTH(inside))
        Py_SETREF(name, Py_NewRef(inside));
    Py_XDECREF(inside);
    return name;
}

/* The region of a path and a class, as the spool has it. */
static uint32_t region_of(PyObject *o, PyObject *path)
{
    PyObject *type = class_name(o);
    PyObject *text = type ? PyUnicode_FromFormat("%U%c%U", path, 0, type) : NULL;
    uint32_t number = text ? region_announced(text) : 0;
    Py_XDECREF(type);
    Py_XDECREF(text);
    return number;
}

static bool add(PyObject *o, PyObject *path, bool is_root)
{
    uint32_t region = region_of(o, path);
    PyObject *weak = region ? watch(o) : NULL;
    struct instance *i = weak ? instance_add((uint64_t)o) : NULL;
    if (!i) {
        Py_XDECREF(weak);
        return false;
    }
    i->weak = weak;
    i->path = Py_NewRef(path);
    i->is_root = is_root;
    i->is_seen = false;
    atomic_store(&i->word, frame_object(region));
    return true;
}

/* How often a dictionary has changed of those that were gone through: objects that are made where they are called would be
 * looked for in all of them each time. */
static uint32_t n_changes;
static int watcher =
    -1; /* for the process's life: its number stays in dictionaries that outlive their objects */

static int on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    (void)dict;
    (void)key;
    (void)value;
    n_changes += event != PyDict_EVENT_DEALLOCATED;
    return 0;
}

/* The next change of the dictionary, which is alive, is counted. */
static void watch_changes(PyObject *dict)
{
    if (watcher >= 0 && PyDict_Watch(watcher, dict))
        PyErr_Clear();
}

static void watch_no_changes(PyObject *dict)
{
    if (watcher >= 0 && PyDict_Unwatch(watcher, dict))
        PyErr_Clear();
}

/* Does what `o` holds by this name have its own path? */
static bool wraps(PyObject *o, PyObject *name)
{
    for (Py_ssize_t i = 0; wrappers && i < PyTuple_GET_SIZE(wrappers); i++) {
        PyObject *type, *below;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(wrappers, i), "UU", &type, &below))
            return false;
        const char *wanted = PyUnicode_AsUTF8(type);
        if (wanted && !PyUnicode_Compare(name, below) &&
            (!*wanted || !strcmp(wanted, Py_TYPE(o)->tp_name)))
            return true;
    }
    return false;
}

/* For the first time in this walk?  Objects may be shared, or hold one another. */
static bool comes_by(PyObject *o)
{
    struct instance *i = instance_find((uint64_t)o);
    bool is_first = i && i->walk != n_walks;
    if (i)
        i->walk = n_walks;
    return is_first;
}

/* All that is below `o`, which has `path`, and not known yet. */
static void add_below(PyObject *o, PyObject *path, int depth)
{
    PyObject *name, *child, *below = depth < DEPTH_MAX ? children_of(o) : NULL;
    Py_ssize_t next = 0;
    if (below)
        watch_changes(below);
    while (below && PyDict_Next(below, &next, &name, &child)) {
        if (!PyUnicode_Check(name) || !is_instance(child))
            continue;
        struct instance *known = instance_find((uint64_t)child);
        PyObject *its = known            ? Py_NewRef(known->path)
                        : wraps(o, name) ? Py_NewRef(path)
                                         : PyUnicode_FromFormat("%U.%U", path, name);
        if (its && (known || add(child, its, false)) && comes_by(child))
            add_below(child, its, depth + 1);
        Py_XDECREF(its);
    }
}

/* The same, unless all that is there has been gone through. */
static void look_below(PyObject *o, PyObject *path)
{
    struct instance *i = instance_find((uint64_t)o);
    if (!i || (watcher >= 0 && i->is_seen && i->seen == n_changes))
        return;
    n_walks++;
    add_below(o, path, 0);
    i = instance_find((uint64_t)o); /* places move */
    if (i) {
        i->is_seen = true;
        i->seen = n_changes;
    }
}

/* The name of a root: its class, or that of what it is wrapped around. */
static PyObject *name_of(PyObject *o)
{
    PyObject *name, *child;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        PyObject *below = children_of(o), *inner = NULL;
        Py_ssize_t next = 0;
        while (below && !inner && PyDict_Next(below, &next, &name, &child))
            if (PyUnicode_Check(name) && wraps(o, name) && is_instance(child))
                inner = child;
        if (!inner)
            break;
        o = inner;
    }
    return class_name(o);
}

/* A path that no other root has that is alive: `within.(Name)` or `Name`, then `Name#2`. */
static PyObject *root_path(PyObject *o, PyObject *within)
{
    PyObject *name = name_of(o), *path = NULL;
    if (!roots)
        roots = PyDict_New();
    for (int i = 1; name && roots && i <= SAME_NAME_MAX; i++) {
        PyObject *numbered = i == 1 ? Py_NewRef(name) : PyUnicode_FromFormat("%U#%d", name, i);
        Py_XSETREF(path, !numbered || !within ? Py_XNewRef(numbered)
                                              : PyUnicode_FromFormat("%U.(%U)", within, numbered));
        Py_XDECREF(numbered);
        if (!path || !PyDict_Contains(roots, path))
            break;
    }
    if (path && roots && PyDict_SetItem(roots, path, Py_None))
        Py_CLEAR(path);
    Py_XDECREF(name);
    return path;
}

/* --- frames ---------------------------------------------------------------------------------------- */

/* The first local variable, borrowed; NULL: there is none any more. */
static PyObject *first_local(const frame_t *f)
{
    PyObject *o = FRAME_LOCAL(f, 0);
    return o && PyCell_Check(o) ? PyCell_GET(o) : o;
}

/* The next one out that runs the method, or another one of an object. */
static const frame_t *enclosing(const frame_t *f, int most)
{
    const frame_t *p = f->previous;
    for (int i = 0; p && i < most; p = p->previous) {
        if (FRAME_IS_ENTRY(p))
            continue;
        if (instances_run(FRAME_CODE(p)))
            return p;
        i++;
    }
    return NULL;
}

/* Is its class one whose objects are lists of others, which are called one by one? */
static bool is_list(PyObject *o)
{
    for (PyTypeObject *type = Py_TYPE(o); lists && type; type = type->tp_base)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lists); i++) {
            const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(lists, i));
            if (name && !strcmp(name, type->tp_name))
                return true;
        }
    return false;
}

/* Is `o` in a list that is `holder`, or below it?  `*most` is how many objects may be looked at. */
static bool holds(PyObject *holder, PyObject *o, int depth, int *most)
{
    PyObject *name, *child, *below = children_of(holder);
    bool lists_them = below && is_list(holder);
    Py_ssize_t next = 0;
    while (below && *most > 0 && PyDict_Next(below, &next, &name, &child)) {
        --*most;
        if (child == o
                ? lists_them
                : depth < HOLDER_DEPTH && is_instance(child) && holds(child, o, depth + 1, most))
            return true;
    }
    return false;
}

/* The variable of that object, if it holds `o` in a list; NULL: it does not. */
static PyObject *holder_in(PyObject *variable, PyObject *o, int *most)
{
    PyObject *v = variable && PyCell_Check(variable) ? PyCell_GET(variable) : variable;
    return v && v != o && is_instance(v) && holds(v, o, 0, most) ? v : NULL;
}

/* What holds `o` in a list, borrowed, among the variables of the functions around `f`; NULL: nothing. */
static PyObject *holder_of(PyObject *o, const frame_t *f)
{
    int most = HELD_MAX, i = 0;
    PyObject *found = NULL, *name, *value;
    for (const frame_t *p = f->previous; p && !found && i < CALLERS_MAX; p = p->previous) {
        if (FRAME_IS_ENTRY(p))
            continue;
        i++;
        const PyCodeObject *code = (const PyCodeObject *)FRAME_CODE(p);
        for (int j = 0; !found && j < code->co_nlocalsplus; j++)
            found = holder_in(FRAME_LOCAL(p, j), o, &most);
        Py_ssize_t next = 0;
        bool is_module = !(code->co_flags & CO_OPTIMIZED);
        while (is_module && !found && most-- > 0 && PyDict_Next(p->f_globals, &next, &name, &value))
            found = holder_in(value, o, &most);
    }
    return found;
}

static void meet(PyObject *o, const frame_t *f);

/* That it runs in; NULL: none.  Where nothing is counted it may not be known yet: its method was called directly. */
static const struct instance *enclosing_instance(const frame_t *f)
{
    while ((f = enclosing(f, ENCLOSING_MAX))) {
        PyObject *o = first_local(f);
        const struct instance *i = instance_find((uint64_t)o);
        if (!i && o && is_instance(o)) {
            meet(o, f);
            i = instance_find((uint64_t)o);
        }
        if (i)
            return i;
    }
    return NULL;
}

/* A root whose name `o` has as well as a place in it, if it has one. */
static void meet_holder(PyObject *o, const frame_t *f)
{
    PyObject *holder = holder_of(o, f);
    if (!holder)
        return;
    const struct instance *known = instance_find((uint64_t)holder);
    PyObject *path = known ? Py_NewRef(known->path) : root_path(holder, NULL);
    if (path && (known || add(holder, path, true)))
        look_below(holder, path);
    else if (path && PyDict_DelItem(roots, path))
        PyErr_Clear();
    Py_XDECREF(path);
}

/* Nothing of the program's runs here, and no other thread. */
static __attribute__((noinline)) void meet(PyObject *o, const frame_t *f)
{
    const struct instance *around = enclosing_instance(f);
    PyObject *within = around ? Py_NewRef(around->path) : NULL;
    if (around)
        look_below((PyObject *)around->object, within);
    else
        meet_holder(o, f);
    if (!instance_find((uint64_t)o)) {
        PyObject *path = root_path(o, within);
        if (path && add(o, path, true))
            look_below(o, path);
        else if (path && PyDict_DelItem(roots, path))
            PyErr_Clear();
        Py_XDECREF(path);
    }
    Py_XDECREF(within);
}

static uint64_t word_of(PyObject *o, const frame_t *f)
{
    uint64_t word = o ? instance_word((uint64_t)o) : 0;
    if (LIKELY(word) || !o)
        return word;
    PyObject *error = PyErr_GetRaisedException();
    if (is_instance(o))
        meet(o, f);
    PyErr_SetRaisedException(error);
    return instance_word((uint64_t)o);
}

void instances_meet(uint64_t code)
{
    const frame_t *f = frame_of_code(current_frame(), code);
    if (f && code == instance_method)
        word_of(first_local(f), f);
}

struct exact_node *instances_node(struct exact *x, struct exact_thread *t,
                                  struct exact_node *parent, const frame_t *f)
{
    PyObject *o = first_local(f);
    if (FRAME_CODE(f) != instance_method) {
        const frame_t *caller = enclosing(f, CALLERS_MAX);
        if (caller && first_local(caller) == o)
            return parent; /* the usual way */
    }
    uint64_t word = word_of(o, f);
    return word ? exact_find_region(x, t, parent, word) : parent;
}

/* --- what began lately ----------------------------------------------------------------------------- */

/* Nodes by caller's node and object.  An object that has died, and another one that has its address, are no hit: what stands
 * at its place in the table is another word then, or the node is that word's all the same. */
#define N_LATELY 2048 /* a power of two */
static struct lately {
    _Alignas(64) uint64_t thread; /* of which session */
    const struct exact_node *parent;
    uint64_t object;
    const struct instance_table *table;
    const struct instance *place;
    uint64_t word;
    struct exact_node *node;
} lately[N_LATELY];

static struct lately *lately_at(const struct exact_node *parent, uint64_t self)
{
    return &lately[map_hash((uint64_t)parent >> 6 ^ self << 16) & (N_LATELY - 1)];
}

static uint64_t thread_of_session(const struct exact *x, const struct exact_thread *t)
{
    return (uint64_t)x->generation << 32 | (uint32_t)t->serial;
}

struct exact_node *instances_lately(const struct exact *x, const struct exact_thread *t,
                                    const struct exact_node *parent, const frame_t *f)
{
    uint64_t self = (uint64_t)first_local(f);
    const struct lately *l = lately_at(parent, self);
    return l->object == self && l->parent == parent && l->thread == thread_of_session(x, t) &&
                   l->table == instance_table && l->place->object == self &&
                   l->place->word == l->word &&
                   codes_holds(x->codes, frame_code_id(l->node->word), FRAME_CODE(f))
               ? l->node
               : NULL;
}

void instances_began(const struct exact *x, const struct exact_thread *t,
                     const struct exact_node *parent, const frame_t *f, struct exact_node *node)
{
    uint64_t self = (uint64_t)first_local(f);
    const struct instance *i = instance_find(self);
    if (i && node != parent && frame_tag(node->word) == PYH_TAG_FUNCTION)
        *lately_at(parent, self) = (struct lately){.thread = thread_of_session(x, t),
                                                   .parent = parent,
                                                   .object = self,
                                                   .table = instance_table,
                                                   .place = i,
                                                   .word = i->word,
                                                   .node = node};
}

bool instances_same(const struct exact_thread *t, const struct exact_node *node, const frame_t *f)
{
    if (!instances_run(FRAME_CODE(f)))
        return true;
    uint64_t word = instance_word((uint64_t)first_local(f));
    uint64_t above = node->parent ? exact_read_node(t, node->parent)->word : 0;
    if (frame_tag(above) == PYH_TAG_REGION)
        return above == word;
    return FRAME_CODE(f) != instance_method || !word;
}

/* --- the session ----------------------------------------------------------------------------------- */

int instances_set(PyObject *code, PyObject *suffix, PyObject *attribute, PyObject *around,
                  PyObject *of_lists, PyObject *inside)
{
    if (!PyCode_Check(code) || !((PyCodeObject *)code)->co_argcount || !PyUnicode_Check(suffix) ||
        !PyUnicode_Check(attribute) || !PyTuple_Check(around) || !PyTuple_Check(of_lists) ||
        !PyTuple_Check(inside)) {
        PyErr_SetString(PyExc_TypeError, "a method's code, two texts, and tuples are wanted");
        return -1;
    }
    Py_XSETREF(methods, Py_NewRef(suffix));
    Py_XSETREF(children, Py_NewRef(attribute));
    Py_XSETREF(wrappers, Py_NewRef(around));
    Py_XSETREF(lists, Py_NewRef(of_lists));
    Py_XSETREF(named_inside, Py_NewRef(inside));
    memset(verdicts, 0, sizeof verdicts);
    if (watcher < 0 && (watcher = PyDict_AddWatcher(on_change)) < 0)
        PyErr_Clear(); /* others have them all */
    atomic_store(&instance_method, (uint64_t)code);
    return 0;
}

void instances_await(PyObject *file, PyObject *found)
{
    Py_XSETREF(awaited, Py_XNewRef(file));
    Py_XSETREF(on_found, Py_XNewRef(found));
}

int instances_code_runs(PyObject *code)
{
    if (LIKELY(!on_found) || instance_method || !PyCode_Check(code) ||
        PyUnicode_Tailmatch(((PyCodeObject *)code)->co_filename, awaited, 0, PY_SSIZE_T_MAX, 1) < 1)
        return 0;
    PyThreadState *state = PyThreadState_Get();
    PyObject *found = Py_NewRef(on_found);
    PyThreadState_EnterTracing(state); /* what it calls is not the program's */
    shadow_enter();
    PyObject *result = PyObject_CallOneArg(found, code);
    shadow_leave();
    PyThreadState_LeaveTracing(state);
    Py_DECREF(found);
    if (!result && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    else if (!result)
        return -1; /* a handler of the program's was called meanwhile */
    Py_XDECREF(result);
    return 0;
}

bool instances_await_end(PyObject *code, PyObject *loaded)
{
    struct exact *x = atomic_load(&exact_current);
    struct exact_thread *t =
        x && exact_this_thread.generation == x->generation ? exact_this_thread.thread : NULL;
    for (uint32_t i = t ? t->depth : 0; i--;) {
        struct exact_frame *f = &t->stack[i];
        if (frame_tag(f->node->word) != PYH_TAG_FUNCTION || !(f->flags & EXACT_RECORDED) ||
            FRAME_CODE((const frame_t *)f->frame) != (uint64_t)code)
            continue;
        f->flags |= EXACT_AWAITED;
        Py_XSETREF(on_loaded, Py_NewRef(loaded));
        return true;
    }
    return false;
}

void instances_are_loaded(void)
{
    PyObject *loaded = on_loaded;
    on_loaded = NULL;
    if (!loaded)
        return;
    PyObject *error = PyErr_GetRaisedException();
    shadow_enter();
    PyObject *result = PyObject_CallNoArgs(loaded); /* a callback's: without events */
    shadow_leave();
    Py_DECREF(loaded);
    if (!result)
        PyErr_Clear();
    Py_XDECREF(result);
    PyErr_SetRaisedException(error);
}

void instances_clear(void)
{
    PyObject *error = PyErr_GetRaisedException();
    instances_await(NULL, NULL);
    Py_CLEAR(on_loaded);
    atomic_store(&instance_method, 0);
    struct instance *i;
    for (uint32_t at = 0; (i = instance_at(at)); at++) {
        PyObject *below = i->word ? children_of((PyObject *)i->object) : NULL;
        if (below)
            watch_no_changes(below);
        if (i->word)
            take_out(i);
    }
    Py_CLEAR(roots);
    PyErr_SetRaisedException(error);
}
