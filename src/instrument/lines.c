#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "lines.h"

#include <string.h>

#include "map.h"

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
    if (p->function == node && p->offset == offset)
        return p->line;
    int line = PyCode_Addr2Line(code, (int)(offset * sizeof(_Py_CODEUNIT)));
    *p = (struct exact_place){.function = node, .offset = offset};
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

void lines_next(struct exact *x, struct exact_thread *t, uint32_t i, uint32_t line)
{
    struct exact_node *n = leaf(x, t, t->stack[i].node, line);
    if (n)
        count(&n->calls, 1);
    t->line[i] = (struct exact_line){.node = n, .since = exact_ticks(x)};
}
