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

bool lines_begin(struct exact *x, struct exact_thread *t, struct exact_node *node, const frame_t *f)
{
    if (!make_room(t))
        return false;
    PyCodeObject *code = (PyCodeObject *)FRAME_CODE(f);
    uint32_t offset = instruction_offset((uint64_t)code, FRAME_INSTRUCTION(f));
    int line = -1;
    if (offset > (uint32_t)code->_co_firsttraceable) /* else its first line is yet to begin */
        line = PyCode_Addr2Line(code, (int)(offset * sizeof(_Py_CODEUNIT)));
    t->line[t->depth] = (struct exact_line){.node = line > 0 ? leaf(x, t, node, (uint32_t)line) : NULL};
    return true;
}

void lines_next(struct exact *x, struct exact_thread *t, uint32_t i, uint32_t line)
{
    struct exact_node *n = leaf(x, t, t->stack[i].node, line);
    if (n)
        count(&n->calls, 1);
    t->line[i] = (struct exact_line){.node = n, .since = exact_ticks(x)};
}
