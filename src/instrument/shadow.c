/* shadow.c - which Python functions run on a thread, and what their coming and going counts.
 *
 * A function begins (PY_START, PY_RESUME, PY_THROW) and ends (PY_RETURN, PY_YIELD, PY_UNWIND); its
 * node is found from its caller's, through the native frames between where C called it.  Events may
 * be missing (functions that were running before, `throw` through a chain of generators, functions
 * that a filter leaves out): wherever a frame's caller is not the top of the shadow stack, the stack
 * is mended from the interpreter's own chain of frames.
 *
 * Context: callbacks of sys.monitoring and instrument_stop: with the GIL.  They never raise, and
 * allocate nothing that the GC knows.
 *
 * Sources: Python/bytecodes.c and Python/ceval.c (where `previous` is set) of CPython 3.12 to 3.15.
 */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "shadow.h"

#include "filter.h"
#include "instances.h"
#include "launcher.h"
#include "makers.h"
#include "regions.h"
#include "shadow_stack.h"
#include "turns.h"
#include "instrument.h"

#define MISSING_MAX 65536 /* frames that one mending may add */

/* The shim that runs `__init__`, as a caller (pyframe.h leaves it out, too). */
static bool is_phantom(const frame_t *f)
{
    uint64_t code = FRAME_CODE(f);
    return f->owner == FRAME_OWNED_BY_THREAD &&
           instruction_offset(code, FRAME_INSTRUCTION(f)) <
               (uint32_t)((const PyCodeObject *)code)->_co_firsttraceable;
}

/* The Python caller of `f`, and the entry frame between if C called it.  NULL: there is none in the program. */
static frame_t *caller_of(const frame_t *f, uint64_t *entry)
{
    frame_t *p = f->previous;
    *entry = 0;
    while (p && (uint64_t)p != launcher_frame()) {
        if (FRAME_IS_ENTRY(p)) {
#if PY_VERSION_HEX >= 0x030f0000
            if (!p->previous)
                return NULL; /* ts->base_frame ends every chain */
#endif
            if (!*entry)
                *entry = (uint64_t)p;
        } else if (!is_phantom(p)) {
            return p;
        }
        p = p->previous;
    }
    return NULL;
}

/* Is it that of the eval loop that runs the program? */
static bool is_launched(uint64_t entry)
{
    const frame_t *caller = ((const frame_t *)entry)->previous;
    return caller && (uint64_t)caller == launcher_frame();
}

struct exact_thread *shadow_new_record(struct exact *x)
{
    current_frame_check();
    x->plain = x->plain && current_state_offset;
    char name[EXACT_NAME_MAX];
    thread_name(name, sizeof name);
    if (instrument_thread_begins)
        instrument_thread_begins();
    return exact_add_thread(x, name);
}

/* What a frame is in the midst of, the line it is on or the C function it waits for, ends. */
static void end_inside(struct exact_thread *t, uint32_t i, uint64_t now)
{
    if (t->stack[i].flags & EXACT_LINES)
        lines_end(t, i, now);
    if (t->stack[i].flags & EXACT_IN_C)
        c_call_ends(t, i, now);
}

void shadow_drop(struct exact *x, struct exact_thread *t, uint64_t now, enum ending how)
{
    end_inside(t, t->depth - 1, now);
    pop(x, t, now, how);
}

/* The flags of `f`, which belongs at the stack's top, where a filter decides. */
static __attribute__((noinline)) uint64_t judged(struct exact *x, struct exact_thread *t,
                                                 const frame_t *f, struct exact_node *node)
{
    if (!filter_selects(x, FRAME_CODE(f), f->f_globals))
        return 0;
    bool has_lines = x->lines && filter_has_lines(x, FRAME_CODE(f), f->f_globals);
    return EXACT_RECORDED | (has_lines && lines_begin(x, t, node, f) ? EXACT_LINES : 0);
}

/* The node of the function in `f`, called by `parent`, that is not one of those called last.  Where a method of an object
 * begins, the next one may be another one's: it never becomes one of them. */
static __attribute__((noinline)) struct exact_node *
find_child(struct exact *x, struct exact_thread *t, struct exact_node *parent, const frame_t *f)
{
    uint64_t code = FRAME_CODE(f);
    if (LIKELY(!instances_run(code)))
        return exact_find_python(x, t, parent, code, (uint64_t)f->f_globals);
    struct exact_node *node = instances_lately(x, t, parent, f);
    if (LIKELY(node))
        return node;
    struct exact_node *instance = instances_node(x, t, parent, f);
    node = exact_python_child(x, t, instance, code, (uint64_t)f->f_globals);
    if (instance == parent)
        parent->hot[code >> 6 & 1] = NULL;
    instances_began(x, t, parent, f, node);
    return node;
}

static ALWAYS_INLINE struct exact_frame *push(struct exact *x, struct exact_thread *t,
                                              const frame_t *f, struct exact_node *parent,
                                              uint64_t entry)
{
    if (t->depth == t->capacity && !exact_grow_stack(t))
        return NULL;
    struct exact_frame *s = &t->stack[t->depth];
    struct exact_node *node = exact_hot_child(x, parent, FRAME_CODE(f));
    if (!LIKELY(node))
        node = find_child(x, t, parent, f);
    /* Below the tree's bound nodes stand for several functions: the outermost one is timed. */
    uint64_t flags = node != parent && !exact_is_own(node) ? EXACT_RECORDED : 0;
    if (!LIKELY(x->all_events) && flags)
        flags = judged(x, t, f, node);
    if (!LIKELY(!x->tasks))
        flags |= tasks_flag(t, parent);
    *s = (struct exact_frame){
        .frame = (uint64_t)f, .entry = entry, .node = node, .since = 0, .flags = flags};
    exact_set_depth(t, t->depth + 1);
    return s;
}

bool shadow_is_same(const struct exact *x, const struct exact_thread *t, uint32_t i,
                    const frame_t *f)
{
    for (;; i--) {
        const struct exact_frame *s = &t->stack[i];
        bool is_function =
            frame_tag(s->node->word) == PYH_TAG_FUNCTION && !(s->flags & EXACT_REGION);
        if (s->frame != (uint64_t)f || (is_function && !exact_is_of(x, s->node, FRAME_CODE(f))))
            return false;
        if (s->flags & EXACT_NATIVE && i)
            continue; /* it may have outlived its function */
        if (s->flags & EXACT_RECORDED)
            return true;
        if (is_function && !instances_same(t, s->node, f))
            return false; /* it was not seen to begin */
        uint64_t entry;
        f = caller_of(f, &entry);
        if (!f || !i)
            return !f && (!i || t->stack[i - 1].frame == REGION_OF_THREAD);
    }
}

/* The [task] of `f` where `throw` goes through it, which has no eval loop then: what awaits a coroutine is one. */
static __attribute__((noinline)) struct exact_node *thrown_into(const struct exact_thread *t,
                                                                const frame_t *f)
{
    uint64_t unused;
    const frame_t *caller = caller_of(f, &unused);
    return caller && !is_generator((const PyCodeObject *)FRAME_CODE(caller)) ? tasks_node(t, f)
                                                                             : NULL;
}

/* The node below which `f` belongs, which C code has called, called by the top of the shadow stack. */
static struct exact_node *below_c(struct exact *x, struct exact_thread *t, const frame_t *f,
                                  struct exact_node *node, uint64_t entry, uint64_t outer_entry)
{
    struct exact_node *task = LIKELY(!x->tasks) ? NULL : tasks_node(t, f);
    return task ? task : native_path(x, t, node, entry, outer_entry);
}

/* The node and the entry frame under which `f`, called by the top of the shadow stack at `now`, belongs. */
static struct exact_node *below_top(struct exact *x, struct exact_thread *t, const frame_t *f,
                                    uint64_t between, uint64_t now, uint64_t *entry)
{
    struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    struct exact_node *node = top ? top->node : &t->root;
    *entry = between ? between : top ? top->entry : 0;
    if (top && top->flags & EXACT_IN_C) {
        if (between)
            node = t->c_calls[t->depth - 1].node;
        else
            c_call_ends(t, t->depth - 1, now); /* without an event (c_calls.c) */
    }
    if (between && !is_launched(between))
        return below_c(x, t, f, node, between, top ? top->entry : 0);
    struct exact_node *task = LIKELY(!x->tasks) ? NULL : thrown_into(t, f);
    return task ? task : node;
}

/* A frame that runs, whose begin was not seen: it ran before the thread was seen, or `throw` went
 * through it to a generator that it awaits. */
static bool push_unseen(struct exact *x, struct exact_thread *t, const frame_t *f, uint64_t now)
{
    uint64_t between, entry;
    caller_of(f, &between);
    struct exact_node *parent = below_top(x, t, f, between, now, &entry);
    struct exact_frame *s = push(x, t, f, parent, entry);
    if (!s)
        return false;
    const PyCodeObject *code = (const PyCodeObject *)FRAME_CODE(f);
    bool resumed = t->started && is_generator(code);
    s->since = t->started ? now : x->start_ticks;
    if (!(s->flags & EXACT_RECORDED)) { /* left out by a filter: a node without figures */
        /* Its end is not seen: the turns of those below end with what it calls. */
        if (resumed && t->depth > 1 && s[-1].flags & EXACT_LINKED)
            s->flags |= EXACT_LINKED;
        if (resumed && regions_this_thread)
            region_resume(x, t, f);
        else
            region_seed(x, t, f, false);
        return true;
    }
    if (turns_are_noted(x, s->node))
        turns_begin(x, t, s, false);
    if (resumed) {
        s->flags |= EXACT_LINKED;
        count(&s->node->resumes, 1);
    } else {
        atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
    }
    region_seed(x, t, f, resumed);
    return true;
}

bool shadow_mend_to(struct exact *x, struct exact_thread *t, const frame_t *first, uint64_t now)
{
    uint64_t entry;
    uint32_t missing = 0, kept = 0, roots = 0;
    const frame_t *outermost = NULL;
    while (roots < t->depth && t->stack[roots].frame == REGION_OF_THREAD)
        roots++;
    for (const frame_t *p = first; p && missing < MISSING_MAX; p = caller_of(p, &entry)) {
        for (kept = t->depth; kept > roots; kept--)
            if (t->stack[kept - 1].frame == (uint64_t)p && shadow_is_same(x, t, kept - 1, p))
                break;
        if (kept > roots)
            break;
        missing++;
        outermost = p;
    }
    if (kept < roots)
        kept = roots;
    region_take_off(x, t, kept, now);
    region_end_left(x, t, now);
    if (kept == roots && outermost &&
        launcher_is_outermost((uint64_t)outermost, FRAME_CODE(outermost))) {
        t->n_moving = 0;
        return false;
    }
    if (t->n_moving && (kept > roots || !missing))
        region_put_back(x, t, now);
    /* They are listed so far up that with their regions they do not reach what is still to be read. */
    uint32_t list = kept + (regions_this_thread ? regions_this_thread->n : 0);
    while (list + missing > t->capacity)
        if (!exact_grow_stack(t))
            return true;
    const frame_t *p = first;
    for (uint32_t i = missing; i--; p = caller_of(p, &entry))
        t->stack[list + i].frame = (uint64_t)p;
    for (uint32_t i = 0; i < missing; i++)
        if (!push_unseen(x, t, (const frame_t *)t->stack[list + i].frame, now))
            break;
    if (t->n_moving)
        region_put_back(x, t, now);
    return true;
}

/* Is what runs `f` and its callers?  `f` NULL: no function does. */
static bool is_stack_of(const struct exact *x, const struct exact_thread *t, const frame_t *f)
{
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || !f)
        return !f && (!top || top->frame == REGION_OF_THREAD);
    return top->frame == (uint64_t)f && shadow_is_same(x, t, t->depth - 1, f);
}

/* NULL: `f` is the launcher's. */
static __attribute__((noinline)) struct exact_node *
find_parent(struct exact *x, struct exact_thread *t, const frame_t *f, uint64_t *entry)
{
    uint64_t between;
    frame_t *p = caller_of(f, &between);
    if (!is_stack_of(x, t, p) && !shadow_mend_to(x, t, p, exact_ticks(x)))
        return NULL;
    t->started = true;
    return below_top(x, t, f, between, exact_ticks(x), entry);
}

/* The first function of each thread that `threading` starts, and it is wanted for the thread's name. */
static bool names_a_thread(const struct exact *x, uint64_t code)
{
    const PyCodeObject *c = (const PyCodeObject *)code;
    return x->names_threads &&
           !PyUnicode_CompareWithASCIIString(c->co_qualname, "Thread._bootstrap");
}

bool shadow_left_out(struct exact *x, const frame_t *f)
{
    return !filter_selects(x, FRAME_CODE(f), f->f_globals);
}

/* Did the top of the stack call C, which called `f`? */
static ALWAYS_INLINE bool is_called_by_c_of(const struct exact_thread *t, const frame_t *f)
{
    const frame_t *entry = f->previous;
    const struct exact_frame *top = &t->stack[t->depth - 1];
    return t->depth && entry && FRAME_IS_ENTRY(entry) && (uint64_t)entry->previous == top->frame &&
           (top->flags & (EXACT_RECORDED | EXACT_IN_C)) == EXACT_RECORDED;
}

#define TIMED_MAX 500000 /* ticks: more is another thread's or machine's */
#define TIMED_LEAST 32   /* callbacks from one that is timed to the next, and up to twice as many */

/* Is this callback timed?  0: it is not; else when it began. */
static ALWAYS_INLINE uint64_t timed_from(struct exact *x)
{
    return LIKELY(--x->slow.until) ? 0 : exact_ticks(x);
}

static __attribute__((noinline)) void timed(struct exact *x, uint64_t from)
{
    struct callback_times *s = &x->slow;
    uint64_t took = exact_ticks(x) - from;
    if (took < TIMED_MAX) {
        s->ticks += ((int64_t)took - (int64_t)s->usual) * s->stands_for;
        s->stands_for = 0;
    }
    s->seed = s->seed * 6364136223846793005ull + 1442695040888963407ull;
    s->until = s->all ? 1 : TIMED_LEAST + (uint32_t)(s->seed >> 32) % TIMED_LEAST;
    s->stands_for += s->until;
}

/* The listener for begins of watched functions takes its time before that: the function begins anew. */
static __attribute__((noinline)) void notify_begin(struct exact *x, uint64_t frame, uint64_t code)
{
    watch_list_notify(code);
    if (atomic_load(&exact_current) != x || exact_this_thread.generation != x->generation)
        return; /* profiling has ended meanwhile */
    struct exact_thread *t = exact_this_thread.thread;
    if (!t->depth || t->stack[t->depth - 1].frame != frame)
        return;
    uint64_t now = t->stack[t->depth - 1].since = exact_ticks(x);
    watched_begin_anew(&t->watched, t->depth - 1, now, makers_next(t));
}

/* The usual case, and nothing to spill registers for: a function that was called here before begins, called
 * by the top of the stack.  False: it is another one, and nothing has been done. */
static ALWAYS_INLINE bool begins_plainly(uint64_t code, bool is_call)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!LIKELY(x && x->plain && exact_this_thread.generation == x->generation))
        return false;
    struct exact_thread *t = exact_this_thread.thread;
    const frame_t *f = frame_of_code(current_frame_at(current_state_offset), code);
    if (!LIKELY(f))
        return false;
    uint32_t depth = t->depth;
    struct exact_frame *top = &t->stack[depth - 1];
    if (!LIKELY(!makers_moved(t) && depth && depth != t->capacity &&
                (uint64_t)f->previous == top->frame &&
                (top->flags & (EXACT_RECORDED | EXACT_IN_C | EXACT_OPAQUE)) == EXACT_RECORDED) ||
        (regions_this_thread && (!is_call || is_generator((const PyCodeObject *)code))))
        return false;
    struct exact_node *node = exact_hot_child(x, top->node, code);
    if (!LIKELY(node))
        return false;
    shadow_enter();
    top[1].frame = (uint64_t)f;
    top[1].entry = top->entry;
    top[1].node = node;
    top[1].flags = EXACT_RECORDED;
    count(is_call ? &node->calls : &node->resumes, 1);
    top[1].since = arch_ticks();
    exact_set_depth(t, depth + 1);
    bool notifies = !LIKELY(!turns_are_noted(x, node)) && turns_begin(x, t, &top[1], is_call);
    shadow_leave();
    if (!LIKELY(!notifies))
        notify_begin(x, (uint64_t)f, code);
    return true;
}

/* The same where C code called the function, which the top of the stack had called: a generator that a C function drives, a
 * key of `sorted`. */
static __attribute__((noinline)) bool begins_below_c(uint64_t code, bool is_call)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!LIKELY(x && x->plain && exact_this_thread.generation == x->generation))
        return false;
    struct exact_thread *t = exact_this_thread.thread;
    const frame_t *f = frame_of_code(current_frame_at(current_state_offset), code);
    uint32_t depth = t->depth;
    if (!LIKELY(f && depth && depth != t->capacity && is_called_by_c_of(t, f) && !x->turns &&
                !makers_moved(t) && !t->opaque && !regions_this_thread) ||
        (x->tasks && is_generator((const PyCodeObject *)code)))
        return false;
    struct exact_frame *top = &t->stack[depth - 1];
    uint64_t entry = (uint64_t)f->previous;
    uint64_t from = timed_from(x);
    shadow_enter();
    struct exact_node *parent = native_path_known(x, t, top->node, entry, top->entry);
    struct exact_node *node = parent ? exact_hot_child(x, parent, code) : NULL;
    if (!LIKELY(node && !turns_are_noted(x, node))) {
        shadow_leave();
        x->slow.until++; /* `begin` is timed instead */
        return false;
    }
    t->started = true;
    top[1].frame = (uint64_t)f;
    top[1].entry = entry;
    top[1].node = node;
    top[1].flags = EXACT_RECORDED;
    count(is_call ? &node->calls : &node->resumes, 1);
    top[1].since = arch_ticks();
    exact_set_depth(t, depth + 1);
    shadow_leave();
    if (!LIKELY(!from))
        timed(x, from);
    return true;
}

/* An event of code that is not the innermost frame's: native code has fired it (PyMonitoring_Fire..., as Cython's modules do that
 * are compiled for profiling; numba calls the callbacks itself), also on a thread without any frame.  NULL: it does not count. */
static struct exact_thread *fired_on(struct exact *x, uint64_t code, const frame_t **f)
{
    if (!x)
        return NULL;
    for (*f = current_frame(); *f && FRAME_IS_ENTRY(*f);)
        *f = (*f)->previous;
    struct exact_thread *t = *f && FRAME_CODE(*f) == code ? NULL : shadow_record(x);
    return t && !is_hidden(t, *f) ? t : NULL;
}

static __attribute__((noinline)) bool fired_begin(struct exact *x, uint64_t code, bool is_call)
{
    const frame_t *f;
    shadow_enter();
    struct exact_thread *t = fired_on(x, code, &f);
    if (t)
        region_push_fired(x, t, f, code, is_call);
    shadow_leave();
    return true;
}

static __attribute__((noinline)) bool fired_end(struct exact *x, uint64_t code, enum ending how)
{
    const frame_t *f;
    shadow_enter();
    struct exact_thread *t = fired_on(x, code, &f);
    if (t)
        region_pop_fired(x, t, code, how, exact_ticks(x));
    shadow_leave();
    return true;
}

static __attribute__((noinline)) bool begin(uint64_t code, bool is_call)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = counted_frame(x, code);
    if (!f)
        return fired_begin(x, code, is_call);
    shadow_enter();
    if (!LIKELY(x->all_events) && shadow_left_out(x, f)) {
        bool again = names_a_thread(x, code) && shadow_record(x);
        shadow_leave();
        return again;
    }
    uint64_t from = timed_from(x);
    /* A generator that yields while it is destroyed ends without an event, and its regions live on in a cycle. */
    if (is_call && regions_this_thread && is_generator((const PyCodeObject *)code))
        region_forget(x, f);
    bool notifies = false;
    struct exact_thread *t = shadow_record(x);
    if (LIKELY(t)) {
        if (!LIKELY(!makers_moved(t)))
            makers_note(t);
        const struct exact_frame *top = &t->stack[t->depth - 1];
        struct exact_node *parent;
        uint64_t entry;
        if (LIKELY(t->depth && (uint64_t)f->previous == top->frame &&
                   (top->flags & (EXACT_RECORDED | EXACT_IN_C)) == EXACT_RECORDED)) {
            parent = top->node;
            entry = top->entry;
        } else if (LIKELY(is_called_by_c_of(t, f))) {
            entry = (uint64_t)f->previous;
            parent = below_c(x, t, f, top->node, entry, top->entry);
            t->started = true;
        } else {
            parent = find_parent(x, t, f, &entry);
        }
        struct exact_frame *s = LIKELY(parent) ? push(x, t, f, parent, entry) : NULL;
        if (LIKELY(s && !exact_is_own(s->node))) {
            count(is_call ? &s->node->calls : &s->node->resumes, 1);
            s->since = exact_ticks(x);
            if (!LIKELY(!turns_are_noted(x, s->node)))
                notifies = turns_begin(x, t, s, is_call);
        }
        if (s && !is_call && regions_this_thread)
            region_resume(x, t, f);
    }
    shadow_leave();
    if (!LIKELY(!from))
        timed(x, from);
    if (!LIKELY(!notifies))
        notify_begin(x, (uint64_t)f, code);
    return true;
}

struct exact_frame *shadow_on_top(struct exact *x, struct exact_thread *t, const frame_t *f)
{
    if (is_hidden(t, f))
        return NULL;
    struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || top->frame != (uint64_t)f || !shadow_is_same(x, t, t->depth - 1, f))
        if (!shadow_mend_to(x, t, f, exact_ticks(x)))
            return NULL;
    t->started = true;
    return t->depth ? &t->stack[t->depth - 1] : NULL;
}

/* The end of a frame that is not the top: those above it ended unseen. */
static __attribute__((noinline)) bool unwind_to(struct exact *x, struct exact_thread *t,
                                                const frame_t *f, enum ending how, uint64_t now)
{
    for (uint32_t i = t->depth; i; i--)
        if (t->stack[i - 1].frame == (uint64_t)f && !(t->stack[i - 1].flags & EXACT_REGION) &&
            shadow_is_same(x, t, i - 1, f)) {
            region_take_off(x, t, i, now);
            if (how != YIELDED && regions_this_thread)
                region_forget(x, f); /* by `__enter__`, called by name */
            end_inside(t, i - 1, now);
            return true;
        }
    /* It began before the thread was seen: its callers are put right with the next begin. */
    t->underflows++;
    return false;
}

/* The generators that wait for what just ended, `throw` having gone through them: their turn ends, with their
 * regions'.  A value that it yields goes out through all of them, without an event.  A generator's return or exception
 * goes to the next one alone, as an event, while those further out still wait. */
static __attribute__((noinline)) void pop_linked(struct exact *x, struct exact_thread *t,
                                                 uint64_t code, enum ending how, uint64_t now)
{
    bool one = how == RAISED || (how == RETURNED && is_generator((const PyCodeObject *)code));
    bool is_region;
    do {
        is_region = t->stack[t->depth - 1].flags & EXACT_REGION;
        shadow_drop(x, t, now, YIELDED);
    } while ((!one || is_region) && t->depth && t->stack[t->depth - 1].flags & EXACT_LINKED);
}

/* `f` has ended, and been popped: native regions that stood on it stand on its caller now; those that were popped
 * below it end with it. */
static __attribute__((noinline)) void move_regions(struct exact *x, struct exact_thread *t,
                                                   const frame_t *f, uint64_t now)
{
    region_end_left(x, t, now);
    if (!t->n_moving)
        return;
    uint64_t entry;
    frame_t *p = caller_of(f, &entry);
    if (is_stack_of(x, t, p))
        region_put_back(x, t, now);
    else
        shadow_mend_to(x, t, p, now);
}

/* It is in the midst of nothing, and no region; its calls may be kept. */
static ALWAYS_INLINE bool ends_as_usual(const struct exact_frame *f)
{
    return (uint32_t)(f->flags & ~(uint64_t)(EXACT_KEPT | EXACT_USAGE)) == EXACT_RECORDED;
}

static ALWAYS_INLINE bool ends_a_turn(const struct exact_frame *f)
{
    return (uint32_t)(f->flags & ~(uint64_t)(EXACT_KEPT | EXACT_USAGE)) ==
           (EXACT_RECORDED | EXACT_TASK);
}

/* The usual case: the top of the stack ends. */
static ALWAYS_INLINE bool ends_plainly(uint64_t code, enum ending how)
{
    uint64_t now = arch_ticks();
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!LIKELY(x && x->plain && exact_this_thread.generation == x->generation))
        return false;
    struct exact_thread *t = exact_this_thread.thread;
    const frame_t *f = frame_of_code(current_frame_at(current_state_offset), code);
    if (!LIKELY(f))
        return false;
    uint32_t depth = t->depth;
    const struct exact_frame *top = &t->stack[depth - 1];
    if (!LIKELY(!makers_moved(t) && depth > 1 && (uint64_t)f == top->frame && ends_as_usual(top) &&
                !(top[-1].flags & (EXACT_LINKED | EXACT_LEFT))))
        return false;
    shadow_enter();
    if (now > top->since)
        count(&top->node->total_ticks, now - top->since);
    if (!LIKELY(!x->turns && top->flags == EXACT_RECORDED))
        turns_end(x, t, top, now, how);
    exact_set_depth(t, depth - 1);
    shadow_leave();
    return true;
}

static __attribute__((noinline)) bool end(uint64_t code, enum ending how)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = counted_frame(x, code);
    if (!f)
        return fired_end(x, code, how);
    uint64_t now = exact_ticks(x);
    shadow_enter();
    if (!LIKELY(x->all_events) && shadow_left_out(x, f)) {
        shadow_leave();
        return false;
    }
    uint64_t from = timed_from(x);
    struct exact_thread *t = shadow_record(x);
    bool awaited = false;
    if (LIKELY(t)) {
        if (!LIKELY(!makers_moved(t)))
            makers_note(t);
        const struct exact_frame *top = &t->stack[t->depth - 1];
        if (LIKELY(t->depth && (uint64_t)f == top->frame &&
                   (ends_as_usual(top) || ends_a_turn(top))) ||
            unwind_to(x, t, f, how, now)) {
            if (how == RAISED && !exact_is_own(t->stack[t->depth - 1].node))
                atomic_fetch_add_explicit(&t->stack[t->depth - 1].node->raised, 1,
                                          memory_order_relaxed);
            if (!LIKELY(!(t->stack[t->depth - 1].flags & EXACT_TASK)) && how != YIELDED)
                tasks_ended(f);
            awaited = how == RETURNED && t->stack[t->depth - 1].flags & EXACT_AWAITED;
            pop(x, t, now, how);
            if (t->depth && t->stack[t->depth - 1].flags & EXACT_LINKED)
                pop_linked(x, t, code, how, now);
            if (t->n_moving || (t->depth && t->stack[t->depth - 1].flags & EXACT_LEFT))
                move_regions(x, t, f, now);
        }
    }
    shadow_leave();
    if (!LIKELY(!from))
        timed(x, from);
    if (awaited)
        instances_are_loaded();
    return true;
}

/* Never NULL, which would raise in the program.  UNWIND and THROW cannot be disabled (before 3.15). */
#define CALLBACK(name, plainly, fully, can_disable)                                                \
    PyObject *name(PyObject *self, PyObject *const *args, size_t n, PyObject *names)               \
    {                                                                                              \
        (void)self;                                                                                \
        (void)n;                                                                                   \
        (void)names;                                                                               \
        if (LIKELY(plainly) || (fully) || !(can_disable))                                          \
            Py_RETURN_NONE;                                                                        \
        return Py_NewRef(shadow_disable);                                                          \
    }
#define CODE (uint64_t)args[0]

PyObject *shadow_disable = Py_None;

CALLBACK(shadow_on_start, begins_plainly(CODE, true),
         begins_below_c(CODE, true) || begin(CODE, true), true)
CALLBACK(shadow_on_resume, begins_plainly(CODE, false),
         begins_below_c(CODE, false) || begin(CODE, false), true)
CALLBACK(shadow_on_throw, false, begin(CODE, false), false)
CALLBACK(shadow_on_return, ends_plainly(CODE, RETURNED), end(CODE, RETURNED), true)
CALLBACK(shadow_on_yield, ends_plainly(CODE, YIELDED), end(CODE, YIELDED), true)
CALLBACK(shadow_on_unwind, false, end(CODE, RAISED), false)

void shadow_close_own(struct exact *x)
{
    if (exact_this_thread.generation != x->generation)
        return;
    struct exact_thread *t = exact_this_thread.thread;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    while (t->depth)
        shadow_drop(x, t, now, CUT_OFF);
    shadow_leave();
}

void shadow_close_all(struct exact *x, uint64_t ticks)
{
    pthread_mutex_lock(&x->lock);
    for (struct exact_thread *t = atomic_load(&x->threads); t; t = t->next) {
        while (t->depth)
            shadow_drop(x, t, ticks, CUT_OFF);
        t->started = false;
    }
    pthread_mutex_unlock(&x->lock);
}

void own_work_begin(struct own_work *w)
{
    *w = (struct own_work){.is_outer = !atomic_exchange(&exact_this_thread.own, 1)};
    struct exact *x = atomic_load(&exact_current);
    const frame_t *f = current_frame();
    if (!x || !f)
        return;
    shadow_enter();
    struct exact_thread *t = shadow_record(x);
    if (t && !t->opaque) {
        w->thread = t;
        w->generation = x->generation;
        w->from = exact_ticks(x);
        w->frame = t->opaque = (uint64_t)f;
    }
    shadow_leave();
}

void own_work_end(const struct own_work *w, bool same_session)
{
    struct exact_thread *t = w->thread;
    if (t && same_session && exact_this_thread.generation == w->generation &&
        exact_this_thread.thread == t) {
        struct exact *x = atomic_load(&exact_current);
        uint64_t took = x ? exact_ticks(x) - w->from : 0;
        shadow_enter();
        if (t->opaque == w->frame)
            t->opaque = 0;
        /* Kept calls are recorded with their begins, by which they lie within one another. */
        for (uint32_t i = took ? t->depth : 0; i-- && !(t->stack[i].flags & EXACT_KEPT);) {
            uint64_t since = t->stack[i].since;
            if (since && since <= w->from)
                __atomic_store_n(&t->stack[i].since, since + took, __ATOMIC_RELAXED);
        }
        shadow_leave();
    }
    if (w->is_outer)
        atomic_store(&exact_this_thread.own, 0);
}
