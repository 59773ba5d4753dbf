#include "function_figures.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"

struct sums {
    struct function_figures *figures;
    size_t n, room;
};

static struct function_figures *of_caller(struct sums *s, uint64_t caller)
{
    for (size_t i = 0; i < s->n; i++)
        if (frame_key(s->figures[i].caller) == frame_key(caller))
            return &s->figures[i];
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 16;
        struct function_figures *more = reallocarray(s->figures, room, sizeof *more);
        if (!more)
            return NULL;
        s->figures = more;
        s->room = room;
    }
    s->figures[s->n] = (struct function_figures){.caller = caller};
    return &s->figures[s->n++];
}

static bool is_of(const struct exact_node *n, uint64_t function)
{
    return frame_tag(n->word) == PYH_TAG_FUNCTION && (n->word & PYH_FUNCTION_MASK) == function;
}

static int add_node(struct sums *s, const struct exact_thread *t, const struct exact_node *node,
                    uint64_t function)
{
    uint64_t caller = 0;
    bool is_recursion = false;
    for (uint32_t id = node->parent; id && !is_recursion;) {
        const struct exact_node *above = exact_read_node(t, id);
        if (!caller && frame_tag(above->word) == PYH_TAG_FUNCTION && !exact_is_own(above))
            caller = above->word;
        is_recursion = is_of(above, function);
        id = above->parent;
    }
    struct function_figures *f = of_caller(s, caller);
    if (!f)
        return -ENOMEM;
    f->calls += node->calls;
    f->ticks += is_recursion ? 0 : node->total_ticks;
    return 0;
}

int exact_figures_of(struct exact *x, uint64_t code, struct function_figures **figures, size_t *n)
{
    struct sums s = {0};
    uint64_t id = codes_find(x->codes, code);
    uint64_t function = id ? codes_numbers(x->codes, id).function : 0;
    int error = atomic_load(&x->n_nodes) < x->max_nodes ? 0 : -ENOSPC;
    pthread_mutex_lock(&x->lock);
    const struct exact_thread *t = function ? atomic_load(&x->threads) : NULL;
    for (; t && !error; t = t->next) {
        uint32_t last = atomic_load(&t->n);
        for (uint32_t i = 1; i <= last && !error; i++) {
            const struct exact_node *node = exact_read_node(t, i);
            if (is_of(node, function))
                error = add_node(&s, t, node, function);
        }
    }
    pthread_mutex_unlock(&x->lock);
    if (error) {
        free(s.figures);
        return error;
    }
    *figures = s.figures;
    *n = s.n;
    return 0;
}

void exact_hold_threads(struct exact *x, bool holds)
{
    pthread_mutex_lock(&x->lock);
    x->n_holds += holds ? 1 : -1;
    pthread_mutex_unlock(&x->lock);
}

uint64_t exact_ticks_to_ns(const struct exact *x, uint64_t ticks)
{
    uint64_t passed = exact_ticks(x) - x->origin_ticks;
    double ns = (double)(clock_now_ns() - x->origin_ns);
    return passed ? (uint64_t)((double)ticks * (ns / (double)passed)) : 0;
}
