/* Sources: Python/bytecodes.c and Python/ceval.c (where `previous` is set) of CPython 3.12 to 3.15. */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "shadow.h"

#include <link.h>

#include "filter.h"
#include "lines.h"
#include "native_path.h"
#include "regions.h"

#define SLOW __attribute__((noinline, cold))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)

#define MISSING_MAX 65536 /* frames that one mending may add */

/* Where the current thread state's pointer lies from the thread pointer on; 0: not known.  The
 * interpreter's own function for it calls __tls_get_addr, which takes longer than all else here. */
static int64_t state_offset;

static PyThreadState *state_by_call(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

static uint64_t state_at(int64_t offset)
{
    return *(const uint64_t *)(arch_thread_pointer() + (uint64_t)offset);
}

/* The interpreter's thread-local block has the pointer once, and lies below the thread pointer if it
 * is part of the static block, which is the same in all threads. */
static int find_in_block(struct dl_phdr_info *info, size_t size, void *data)
{
    uint64_t state = (uint64_t)state_by_call(), self = arch_thread_pointer(), found = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && info->dlpi_tls_data; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        for (uint64_t at = 0; p->p_type == PT_TLS && at + 8 <= p->p_memsz; at += 8) {
            uint64_t address = (uint64_t)info->dlpi_tls_data + at;
            if (*(const uint64_t *)address != state)
                continue;
            found++;
            *(int64_t *)data = (int64_t)(address - self);
        }
    }
    if (found != 1 || *(int64_t *)data >= 0 || *(int64_t *)data < -65536)
        *(int64_t *)data = 0;
    return found != 0;
}

void shadow_init(void)
{
    state_offset = 0;
    dl_iterate_phdr(find_in_block, &state_offset);
}

frame_t *shadow_current_frame(void)
{
    const PyThreadState *ts =
        LIKELY(state_offset) ? (const PyThreadState *)state_at(state_offset) : state_by_call();
#if PY_VERSION_HEX >= 0x030d0000
    return ts->current_frame;
#else
    return ts->cframe->current_frame;
#endif
}

/* The shim that runs `__init__`, as a caller (pyframe.h leaves it out, too). */
static bool is_phantom(const frame_t *f)
{
    uint64_t code = FRAME_CODE(f);
    return f->owner == FRAME_OWNED_BY_THREAD &&
           instruction_offset(code, FRAME_INSTRUCTION(f)) <
               (uint32_t)((const PyCodeObject *)code)->_co_firsttraceable;
}

/* The Python caller of `f`, and the entry frame between if C called it. */
static frame_t *caller_of(const frame_t *f, uint64_t *entry)
{
    frame_t *p = f->previous;
    *entry = 0;
    while (p) {
        if (frame_is_entry(p)) {
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

static SLOW struct exact_thread *new_record(struct exact *x)
{
    if (state_offset && state_at(state_offset) != (uint64_t)state_by_call())
        state_offset = 0;
    return exact_add_thread(x);
}

static struct exact_thread *thread_record(struct exact *x)
{
    return LIKELY(exact_mine.generation == x->generation) ? exact_mine.thread : new_record(x);
}

enum ending { RETURNED, YIELDED, RAISED, CUT_OFF /* profiling ends, the function does not */ };

static bool is_generator(const PyCodeObject *code)
{
    return code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
}

/* What begins is logged.  `is_new`: it is a call, no other turn of one. */
static __attribute__((noinline)) void log_begin(struct exact *x, struct exact_thread *t,
                                                struct exact_frame *s, bool is_new)
{
    if (x->log_events)
        event_put(&t->events, is_new ? EVENT_CALL : EVENT_RESUME, s->node->id, s->since);
    if (!x->keep_calls || s->flags & EXACT_REGION)
        return;
    uint32_t call = 0;
    if (is_generator((const PyCodeObject *)FRAME_CODE((const frame_t *)s->frame))) {
        call = open_calls_resume(&x->open, s->frame);
        if (call && is_new) /* of one that was at this address, and was dropped */
            open_calls_end(&x->open, call);
        if (!call || is_new)
            call = open_calls_begin(&x->open, s->since, !is_new);
    } else if (!is_new) { /* it ran before profiling did */
        call = open_calls_begin(&x->open, s->since, true);
    }
    s->flags |= EXACT_KEPT | (uint64_t)call << EXACT_CALL_SHIFT;
}

static __attribute__((noinline)) void log_end(struct exact *x, struct exact_thread *t,
                                              const struct exact_frame *f, uint64_t now,
                                              enum ending how)
{
    static const enum event_kind kind[] = {EVENT_RETURN, EVENT_YIELD, EVENT_RAISE, EVENT_RETURN};
    uint32_t call = (uint32_t)(f->flags >> EXACT_CALL_SHIFT);
    if (f->flags & EXACT_REGION && !(f->flags & EXACT_LEFT) && how != CUT_OFF)
        how = YIELDED; /* it is where its function is */
    if (x->log_events)
        event_put(&t->events, kind[how], f->node->id, now);
    if (!(f->flags & EXACT_KEPT))
        return;
    bool ended = how != YIELDED;
    struct call_turn turn = {.since = f->since, .until = now, .node = f->node->id};
    turn.flags = (ended ? CALL_ENDED : 0) | (how == RAISED ? CALL_RAISED : 0) |
                 (how == CUT_OFF ? CALL_PARTIAL : 0);
    t->kept = calls_turn(&t->calls, &x->open, call, &turn) ? turn.serial : 0;
    if (call && !(f->flags & EXACT_REGION)) {
        if (ended)
            open_calls_end(&x->open, call);
        else
            open_calls_suspend(&x->open, call, f->frame);
    }
}

static ALWAYS_INLINE void pop(struct exact *x, struct exact_thread *t, uint64_t now,
                              enum ending how)
{
    const struct exact_frame *f = &t->stack[t->depth - 1];
    if (f->flags & EXACT_RECORDED && now > f->since)
        count(&f->node->total_ticks, now - f->since);
    if (!LIKELY(!x->log_events && !(f->flags & EXACT_KEPT)) && f->flags & EXACT_RECORDED)
        log_end(x, t, f, now, how);
    t->depth--;
}

/* The C function that the stack's frame `i` waits for has ended, or must have. */
static void end_c_call(struct exact_thread *t, uint32_t i, uint64_t now)
{
    const struct exact_c_call *c = &t->c_calls[i];
    t->stack[i].flags &= ~(uint64_t)EXACT_IN_C;
    if (now > c->since)
        count(&c->node->total_ticks, now - c->since);
}

/* What a frame is in the midst of, the line it is on or the C function it waits for, ends. */
static void end_inside(struct exact_thread *t, uint32_t i, uint64_t now)
{
    if (t->stack[i].flags & EXACT_LINES)
        lines_end(t, i, now);
    if (t->stack[i].flags & EXACT_IN_C)
        end_c_call(t, i, now);
}

/* Pops any frame. */
static __attribute__((noinline)) void drop(struct exact *x, struct exact_thread *t, uint64_t now,
                                           enum ending how)
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
    return EXACT_RECORDED | (x->lines && lines_begin(x, t, node, f) ? EXACT_LINES : 0);
}

static ALWAYS_INLINE struct exact_frame *push(struct exact *x, struct exact_thread *t,
                                              const frame_t *f, struct exact_node *parent,
                                              uint64_t entry)
{
    if (t->depth == t->capacity && !exact_grow_stack(t))
        return NULL;
    struct exact_frame *s = &t->stack[t->depth];
    struct exact_node *node = exact_python_child(x, t, parent, FRAME_CODE(f));
    /* Below the tree's bound nodes stand for several functions: the outermost one is timed. */
    uint64_t flags = node != parent ? EXACT_RECORDED : 0;
    if (!LIKELY(x->all_events) && flags)
        flags = judged(x, t, f, node);
    *s = (struct exact_frame){
        .frame = (uint64_t)f, .entry = entry, .node = node, .since = 0, .flags = flags};
    t->depth++;
    return s;
}

/* Is the shadow stack's frame `i` the live frame `f`?  Its end was seen if it is recorded; else another
 * one may have taken its place in memory, so its callers are compared, too. */
static bool is_same(const struct exact *x, const struct exact_thread *t, uint32_t i,
                    const frame_t *f)
{
    for (;; i--) {
        const struct exact_frame *s = &t->stack[i];
        if (s->frame != (uint64_t)f ||
            (frame_tag(s->node->word) == PYH_TAG_PYTHON &&
             !codes_holds(x->codes, frame_code_id(s->node->word), FRAME_CODE(f))))
            return false;
        if (s->flags & EXACT_RECORDED)
            return true;
        uint64_t entry;
        f = caller_of(f, &entry);
        if (!f || !i)
            return !f && !i;
    }
}

/* The node and the entry frame under which `f`, called by the top of the shadow stack, belongs. */
static struct exact_node *below_top(struct exact *x, struct exact_thread *t, uint64_t between,
                                    uint64_t *entry)
{
    struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    struct exact_node *node = top ? top->node : &t->root;
    *entry = between ? between : top ? top->entry : 0;
    if (top && top->flags & EXACT_IN_C) {
        if (between)
            node = t->c_calls[t->depth - 1].node;
        else
            end_c_call(t, t->depth - 1, exact_ticks(x)); /* without an event (c_calls.h) */
    }
    if (between)
        node = native_path(x, t, node, between, top ? top->entry : 0);
    return node;
}

/* A region, on top of the frame that has entered it.  `is_new`: it is entered now. */
static struct exact_frame *push_region(struct exact *x, struct exact_thread *t,
                                       struct region_slot *slot, bool is_new)
{
    if (t->depth == t->capacity && !exact_grow_stack(t))
        return NULL;
    const struct exact_frame *below = &t->stack[t->depth - 1];
    struct exact_frame *s = &t->stack[t->depth];
    struct exact_node *node = exact_child(x, t, below->node, slot->word);
    *s = *below;
    s->node = node;
    s->since = exact_ticks(x);
    if (slot->generation != x->generation) {
        slot->call = open_calls_begin(&x->open, s->since, !is_new);
        slot->generation = x->generation;
    }
    s->flags = EXACT_REGION | EXACT_KEPT | (uint64_t)slot->call << EXACT_CALL_SHIFT |
               (node != below->node ? EXACT_RECORDED : 0);
    if (x->log_events)
        log_begin(x, t, s, is_new);
    t->depth++;
    return s;
}

/* A frame that runs, whose begin was not seen: it ran before the thread was seen, or `throw` went
 * through it to a generator that it awaits. */
static bool push_unseen(struct exact *x, struct exact_thread *t, const frame_t *f, uint64_t now)
{
    uint64_t between, entry;
    caller_of(f, &between);
    struct exact_node *parent = below_top(x, t, between, &entry);
    struct exact_frame *s = push(x, t, f, parent, entry);
    if (!s)
        return false;
    const PyCodeObject *code = (const PyCodeObject *)FRAME_CODE(f);
    bool resumed = t->started && is_generator(code);
    s->since = t->started ? now : x->start_ticks;
    if (!(s->flags & EXACT_RECORDED))
        return true; /* left out by a filter: a node without figures */
    if (x->log_events || x->keep_calls)
        log_begin(x, t, s, false);
    if (resumed) {
        s->flags |= EXACT_LINKED;
        count(&s->node->resumes, 1);
    } else {
        atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
    }
    for (uint32_t i = 0; regions_mine && i < regions_mine->n; i++)
        if (regions_mine->slots[i].frame == (uint64_t)f &&
            (s = push_region(x, t, &regions_mine->slots[i], false)))
            atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
    return true;
}

/* Makes the shadow stack that of `first` and its callers. */
static void mend_to(struct exact *x, struct exact_thread *t, const frame_t *first, uint64_t now)
{
    uint64_t entry;
    uint32_t missing = 0, kept = 0;
    for (const frame_t *p = first; p && missing < MISSING_MAX; p = caller_of(p, &entry)) {
        for (kept = t->depth; kept; kept--)
            if (t->stack[kept - 1].frame == (uint64_t)p && is_same(x, t, kept - 1, p))
                break;
        if (kept)
            break;
        missing++;
    }
    while (t->depth > kept)
        drop(x, t, now, RETURNED);
    while (kept + missing > t->capacity)
        if (!exact_grow_stack(t))
            return;
    const frame_t *p = first;
    for (uint32_t i = missing; i--; p = caller_of(p, &entry))
        t->stack[kept + i].frame = (uint64_t)p;
    for (uint32_t i = 0; i < missing; i++)
        if (!push_unseen(x, t, (const frame_t *)t->stack[kept + i].frame, now))
            return;
}

static __attribute__((noinline)) struct exact_node *
find_parent(struct exact *x, struct exact_thread *t, const frame_t *f, uint64_t *entry)
{
    uint64_t between;
    frame_t *p = caller_of(f, &between);
    struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!(top ? p && top->frame == (uint64_t)p && is_same(x, t, t->depth - 1, p) : !p))
        mend_to(x, t, p, exact_ticks(x));
    t->started = true;
    return below_top(x, t, between, entry);
}

/* A generator or coroutine goes on within the regions that it had entered. */
static __attribute__((noinline)) void resume_regions(struct exact *x, struct exact_thread *t,
                                                     const frame_t *f)
{
    for (uint32_t i = 0; i < regions_mine->n; i++) {
        if (regions_mine->slots[i].frame != (uint64_t)f)
            continue;
        struct exact_frame *s = push_region(x, t, &regions_mine->slots[i], false);
        if (s)
            count(&s->node->resumes, 1);
    }
}

static void enter(void)
{
    atomic_store_explicit(&exact_mine.busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static void leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&exact_mine.busy, 0, memory_order_relaxed);
}

/* Is the function left out?  Then its events at this place can be switched off. */
static __attribute__((noinline)) bool left_out(struct exact *x, uint64_t code)
{
    const frame_t *f = shadow_current_frame();
    /* A callback that C code fires (PyMonitoring_Fire...) may come with another frame's globals. */
    return !filter_selects(x, code, FRAME_CODE(f) == code ? f->f_globals : NULL);
}

static ALWAYS_INLINE bool begin(uint64_t code, bool is_call)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return true;
    enter();
    if (!LIKELY(x->all_events) && left_out(x, code)) {
        leave();
        return false;
    }
    struct exact_thread *t = thread_record(x);
    if (LIKELY(t)) {
        const frame_t *f = shadow_current_frame();
        const struct exact_frame *top = &t->stack[t->depth - 1];
        struct exact_node *parent;
        uint64_t entry;
        if (LIKELY(t->depth && (uint64_t)f->previous == top->frame &&
                   (top->flags & (EXACT_RECORDED | EXACT_IN_C)) == EXACT_RECORDED)) {
            parent = top->node;
            entry = top->entry;
        } else {
            parent = find_parent(x, t, f, &entry);
        }
        struct exact_frame *s = push(x, t, f, parent, entry);
        if (LIKELY(s)) {
            count(is_call ? &s->node->calls : &s->node->resumes, 1);
            s->since = exact_ticks(x);
            if (!LIKELY(!x->log_events && !x->keep_calls))
                log_begin(x, t, s, is_call);
            if (!is_call && regions_mine)
                resume_regions(x, t, f);
        }
    }
    leave();
    return true;
}

/* `f` as a caller: what it calls next would find it on top.  NULL: no memory. */
static struct exact_frame *on_top(struct exact *x, struct exact_thread *t, const frame_t *f)
{
    struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || top->frame != (uint64_t)f || !is_same(x, t, t->depth - 1, f))
        mend_to(x, t, f, exact_ticks(x));
    t->started = true;
    return t->depth ? &t->stack[t->depth - 1] : NULL;
}

void shadow_enter_region(const frame_t *f, struct region_slot *slot)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return;
    enter();
    struct exact_thread *t = thread_record(x);
    if (t) {
        const struct exact_frame *top = on_top(x, t, f);
        if (top && top->flags & EXACT_IN_C)
            end_c_call(t, t->depth - 1, exact_ticks(x)); /* `__enter__`, called by name */
        struct exact_frame *s = top ? push_region(x, t, slot, true) : NULL;
        if (s)
            count(&s->node->calls, 1);
    }
    leave();
}

uint32_t shadow_leave_region(const struct region_slot *slot)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x || exact_mine.generation != x->generation)
        return 0;
    uint64_t now = exact_ticks(x);
    enter();
    struct exact_thread *t = exact_mine.thread;
    t->kept = 0;
    for (uint32_t i = t->depth; i--;) {
        struct exact_frame *s = &t->stack[i];
        if (s->frame != slot->frame || !(s->flags & EXACT_REGION) || s->node->word != slot->word)
            continue;
        s->flags |= EXACT_LEFT;
        while (t->depth > i)
            drop(x, t, now, RETURNED);
        break;
    }
    if (slot->generation == x->generation)
        open_calls_end(&x->open, slot->call);
    leave();
    return t->kept;
}

void shadow_note_attributes(uint32_t serial, const char *text, uint32_t length)
{
    const struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (x && exact_mine.generation == x->generation)
        calls_attributes(&exact_mine.thread->calls, serial, text, length);
}

/* By the function on top.  The last call at this depth often was the same.  Below the tree's bound, where
 * nodes stand for several functions, it is not timed. */
static ALWAYS_INLINE void begin_c_call(struct exact *x, struct exact_thread *t, uint64_t word)
{
    struct exact_frame *top = &t->stack[t->depth - 1];
    struct exact_c_call *c = &t->c_calls[t->depth - 1];
    if (top->flags & EXACT_IN_C)
        end_c_call(t, t->depth - 1, exact_ticks(x));
    struct exact_node *node = c->node;
    if (!node || node->word != word || node->parent != top->node->id)
        node = exact_child(x, t, top->node, word);
    count(&node->calls, 1);
    if (node == top->node || !(top->flags & EXACT_RECORDED))
        return;
    top->flags |= EXACT_IN_C;
    *c = (struct exact_c_call){node, exact_ticks(x)};
}

bool shadow_begin_c(uint64_t code, uint64_t function)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x || (!function && x->all_events))
        return true;
    enter();
    if (!LIKELY(x->all_events) && left_out(x, code)) {
        leave();
        return false;
    }
    struct exact_thread *t = function ? thread_record(x) : NULL;
    const frame_t *f = shadow_current_frame();
    if (LIKELY(t && FRAME_CODE(f) == code)) { /* another one's: see left_out */
        struct exact_frame *top = &t->stack[t->depth - 1];
        if (!LIKELY(t->depth && top->frame == (uint64_t)f && top->flags & EXACT_RECORDED))
            top = on_top(x, t, f);
        if (LIKELY(top && top->frame == (uint64_t)f))
            begin_c_call(x, t, frame_c_call(frame_native(function)));
    }
    leave();
    return true;
}

void shadow_end_c(uint64_t code, bool raised)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x || exact_mine.generation != x->generation)
        return;
    uint64_t now = exact_ticks(x);
    enter();
    struct exact_thread *t = exact_mine.thread;
    const frame_t *f = shadow_current_frame();
    uint32_t depth = FRAME_CODE(f) == code ? t->depth : 0;
    while (depth && t->stack[depth - 1].frame != (uint64_t)f)
        depth--; /* left out by a filter, their ends are not seen */
    if (depth && t->stack[depth - 1].flags & EXACT_IN_C) {
        while (t->depth > depth)
            drop(x, t, now, RETURNED);
        if (raised)
            atomic_fetch_add_explicit(&t->c_calls[depth - 1].node->raised, 1, memory_order_relaxed);
        end_c_call(t, depth - 1, now);
    }
    leave();
}

/* The end of a frame that is not the top: those above it ended unseen. */
static __attribute__((noinline)) bool unwind_to(struct exact *x, struct exact_thread *t,
                                                const frame_t *f, uint64_t now)
{
    for (uint32_t i = t->depth; i; i--)
        if (t->stack[i - 1].frame == (uint64_t)f && !(t->stack[i - 1].flags & EXACT_REGION) &&
            is_same(x, t, i - 1, f)) {
            while (t->depth > i)
                drop(x, t, now, RETURNED);
            end_inside(t, i - 1, now);
            return true;
        }
    /* It began before the thread was seen: its callers are put right with the next begin. */
    t->underflows++;
    return false;
}

/* The generators that wait for what just ended, `throw` having gone through them.  A value that it
 * yields ends all of them, without an event.  A generator's return or exception goes to the next one
 * alone, as an event, while those further out still wait. */
static __attribute__((noinline)) void pop_linked(struct exact *x, struct exact_thread *t,
                                                 uint64_t code, enum ending how, uint64_t now)
{
    bool one = how == RAISED || (how == RETURNED && is_generator((const PyCodeObject *)code));
    do
        drop(x, t, now, how);
    while (!one && t->depth && t->stack[t->depth - 1].flags & EXACT_LINKED);
}

static ALWAYS_INLINE bool end(uint64_t code, enum ending how)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return true;
    uint64_t now = exact_ticks(x);
    enter();
    if (!LIKELY(x->all_events) && left_out(x, code)) {
        leave();
        return false;
    }
    struct exact_thread *t = thread_record(x);
    if (LIKELY(t)) {
        const frame_t *f = shadow_current_frame();
        const struct exact_frame *top = &t->stack[t->depth - 1];
        if (LIKELY(t->depth && (uint64_t)f == top->frame && top->flags == EXACT_RECORDED) ||
            unwind_to(x, t, f, now)) {
            if (how == RAISED)
                atomic_fetch_add_explicit(&t->stack[t->depth - 1].node->raised, 1,
                                          memory_order_relaxed);
            pop(x, t, now, how);
            if (t->depth && t->stack[t->depth - 1].flags & EXACT_LINKED)
                pop_linked(x, t, code, how, now);
        }
    }
    leave();
    return true;
}

/* The place in the stack of `f`, the innermost frame, where it is not simply the top; -1: it has no
 * lines. */
static __attribute__((noinline)) int64_t find_line(struct exact *x, struct exact_thread *t,
                                                   const frame_t *f, uint64_t now)
{
    bool seeded = !t->started;
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || top->frame != (uint64_t)f || !is_same(x, t, t->depth - 1, f))
        mend_to(x, t, f, now);
    t->started = true;
    uint32_t i = t->depth;
    while (i && t->stack[i - 1].flags & EXACT_REGION && t->stack[i - 1].frame == (uint64_t)f)
        i--;
    if (!i || t->stack[i - 1].frame != (uint64_t)f || !(t->stack[i - 1].flags & EXACT_LINES))
        return -1;
    if (seeded) /* it stands on the new line now: which one it was on is not known */
        t->line[i - 1].node = NULL;
    return i - 1;
}

static ALWAYS_INLINE void next_line(uint64_t code, PyObject *line)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return;
    uint64_t now = exact_ticks(x);
    enter();
    struct exact_thread *t = thread_record(x);
    const frame_t *f = shadow_current_frame();
    if (LIKELY(t && FRAME_CODE(f) == code)) {
        int64_t i = (int64_t)t->depth - 1;
        if (!LIKELY(i >= 0 && t->stack[i].frame == (uint64_t)f &&
                    t->stack[i].flags == (EXACT_RECORDED | EXACT_LINES)))
            i = find_line(x, t, f, now);
        if (LIKELY(i >= 0)) {
            lines_end(t, (uint32_t)i, now);
            lines_next(x, t, (uint32_t)i, (uint32_t)PyLong_AsLong(line));
        }
    }
    leave();
}

/* Never NULL, which would raise in the program.  UNWIND and THROW cannot be disabled (before 3.15). */
#define CALLBACK(name, keep_on, can_disable)                                                       \
    PyObject *name(PyObject *self, PyObject *const *args, size_t n, PyObject *names)               \
    {                                                                                              \
        (void)self;                                                                                \
        (void)n;                                                                                   \
        (void)names;                                                                               \
        if (LIKELY(keep_on) || !(can_disable))                                                     \
            Py_RETURN_NONE;                                                                        \
        return Py_NewRef(shadow_disable);                                                          \
    }

PyObject *shadow_disable = Py_None;

CALLBACK(shadow_on_start, begin((uint64_t)args[0], true), true)
CALLBACK(shadow_on_resume, begin((uint64_t)args[0], false), true)
CALLBACK(shadow_on_throw, begin((uint64_t)args[0], false), false)
CALLBACK(shadow_on_return, end((uint64_t)args[0], RETURNED), true)
CALLBACK(shadow_on_yield, end((uint64_t)args[0], YIELDED), true)
CALLBACK(shadow_on_unwind, end((uint64_t)args[0], RAISED), false)
CALLBACK(shadow_on_line, (next_line((uint64_t)args[0], args[1]), true), false)

void shadow_close_all(struct exact *x, uint64_t ticks)
{
    pthread_mutex_lock(&x->lock);
    for (struct exact_thread *t = atomic_load(&x->threads); t; t = t->next) {
        while (t->depth)
            drop(x, t, ticks, CUT_OFF);
        t->started = false;
    }
    pthread_mutex_unlock(&x->lock);
}
