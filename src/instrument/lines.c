/* lines.c - how often the lines of chosen functions begin, and how long they last.
 *
 * A line begins with a LINE event, a function's first line with the function, and lasts until the same
 * activation's next one or its end or suspension, whatever it calls meanwhile.  Where a generator or
 * coroutine goes on, so does the line on which it was suspended.  Figures are those of a leaf of the
 * tree, below the function's node.
 *
 * Context: callbacks of sys.monitoring: with the GIL.
 */
#include "shadow.h"

#include <string.h>

#include "map.h"

#define ON_LINE (EXACT_RECORDED | EXACT_LINES)

/* NULL: no memory, or the tree is full. */
static struct exact_node *leaf(struct exact *x, struct exact_thread *t, struct exact_node *node,
                               uint32_t line)
{
    uint64_t word = frame_line(line);
    struct exact_node *n = exact_child(x, t, node, word);
    return n->word == word ? n : NULL;
}

static bool make_room(struct exact_thread *t)
{
    if (t->depth < t->n_lines)
        return true;
    if (!t->place && !(t->place = map_memory(EXACT_PLACES * sizeof *t->place)))
        return false;
    struct exact_line *larger = map_memory(t->capacity * sizeof *larger), *old = t->line;
    if (!larger)
        return false;
    if (old)
        memcpy(larger, old, t->n_lines * sizeof *old);
    map_memory_free(old, t->n_lines * sizeof *old);
    t->line = larger;
    t->n_lines = t->capacity;
    return true;
}

/* The line on which `code` was suspended, or called what runs. */
static struct exact_node *line_at(struct exact *x, struct exact_thread *t, struct exact_node *node,
                                  PyCodeObject *code, uint32_t offset)
{
    struct exact_place *p = &t->place[(node->id ^ offset) % EXACT_PLACES];
    uint64_t at = codes_find(x->codes, (uint64_t)code) << PYH_OFFSET_BITS | offset;
    if (p->function == node && p->at == at)
        return p->line;
    int line = PyCode_Addr2Line(code, (int)(offset * sizeof(_Py_CODEUNIT)));
    *p = (struct exact_place){.function = node, .at = at};
    if (line > 0)
        p->line = leaf(x, t, node, (uint32_t)line);
    return p->line;
}

bool lines_begin(struct exact *x, struct exact_thread *t, struct exact_node *node, const frame_t *f)
{
    if (!make_room(t))
        return false;
    PyCodeObject *code = (PyCodeObject *)FRAME_CODE(f);
    uint32_t offset = instruction_offset((uint64_t)code, FRAME_INSTRUCTION(f));
    struct exact_line *l = &t->line[t->depth];
    *l = (struct exact_line){0};
    if (offset > (uint32_t)code->_co_firsttraceable) /* else its first line is yet to begin */
        l->node = line_at(x, t, node, code, offset);
    return true;
}

/* The first line of a function begins with it: in between the interpreter may hand over the GIL, which
 * takes as long as other threads like.  What the callback cost is no line's. */
static void lines_next(struct exact *x, struct exact_thread *t, uint32_t i, uint64_t now,
                       uint32_t line)
{
    struct exact_line *l = &t->line[i];
    bool first = !l->node && !l->since;
    lines_end(t, i, now);
    struct exact_node *n = leaf(x, t, t->stack[i].node, line);
    if (n)
        count(&n->calls, 1);
    *l = (struct exact_line){.node = n, .since = first ? 0 : exact_ticks(x)};
}

/* The place in the stack of `f`, the innermost frame, where it is not simply the top; -1: it has no
 * lines. */
static __attribute__((noinline)) int64_t find_line(struct exact *x, struct exact_thread *t,
                                                   const frame_t *f, uint64_t now)
{
    bool seeded = !t->started;
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || top->frame != (uint64_t)f || !shadow_is_same(x, t, t->depth - 1, f))
        shadow_mend_to(x, t, f, now);
    t->started = true;
    uint32_t i = t->depth;
    while (i && t->stack[i - 1].flags & EXACT_REGION && t->stack[i - 1].frame == (uint64_t)f)
        i--;
    if (!i || t->stack[i - 1].frame != (uint64_t)f || !(t->stack[i - 1].flags & EXACT_LINES))
        return -1;
    if (seeded) /* it stands on the new line now: which one it was on is not known */
        t->line[i - 1] = (struct exact_line){.since = now};
    return i - 1;
}

PyObject *lines_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self;
    (void)n;
    (void)names;
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = counted_frame(x, (uint64_t)args[0]);
    if (!f)
        Py_RETURN_NONE;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    struct exact_thread *t = shadow_record(x);
    if (LIKELY(t)) {
        int64_t i = (int64_t)t->depth - 1;
        if (!LIKELY(i >= 0 && t->stack[i].frame == (uint64_t)f &&
                    (t->stack[i].flags & (ON_LINE | EXACT_LINKED | EXACT_REGION)) == ON_LINE))
            i = find_line(x, t, f, now);
        if (LIKELY(i >= 0))
            lines_next(x, t, (uint32_t)i, now, (uint32_t)PyLong_AsLong(args[1]));
    }
    shadow_leave();
    Py_RETURN_NONE;
}
