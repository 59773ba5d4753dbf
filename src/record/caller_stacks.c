/* caller_stacks.c - the stack that a sample's own words hang below: the path of a node of the exact half, with the
 * instructions that the sampler noted (sampler/callers.c).
 *
 * What the thread's last sample had is kept, place by place: mostly only the innermost ones are others.
 *
 * Context: as drain.h.
 */
#include "drain_parts.h"

#include "call_tree.h"
#include "codes.h"
#include "frame.h"
#include "map.h"
#include "records.h"
#include "stacks.h"

/* What the stacks of one sample are found with. */
struct finder {
    struct way_up *way;
    struct stacks *tree;
    struct canonical *words;
    struct exact_thread *thread;
    bool now;
};

void caller_stacks_forget(struct caller_stacks *c)
{
    c->n_stacks = c->base_node = 0;
}

void caller_stacks_free(struct caller_stacks *c)
{
    map_memory_free(c->place, c->bytes);
}

/* The canonical word of an exact node, which has no instruction.  0: not yet. */
static uint64_t word_of(const struct finder *f, uint32_t node)
{
    uint64_t word = canonical_word(f->words, exact_read_node(f->thread, node)->word);
    if (!word)
        return f->now ? frame_pseudo(PSEUDO_UNKNOWN_PYTHON) : 0;
    if (frame_tag(word) == PYH_TAG_PYTHON)
        return word | PYH_OFFSET_UNKNOWN;
    return frame_tag(word) == PYH_TAG_C_CALL ? word ^ frame_c_call(0) : word;
}

/* From *stack, which stands for the node `above`, down to `node`; from the root if that does not lie below it.  `raw`: the
 * last one's word, if it is not 0; `plain`: no other path leads there, so its stack is kept.  False: not yet. */
static bool descend(const struct finder *f, uint32_t above, uint32_t node, uint64_t raw, bool plain,
                    uint32_t *stack)
{
    struct way_up *way = f->way;
    struct exact_drained *drained = f->thread->drained;
    size_t n = 0;
    for (uint32_t at = node; at != above; at = exact_read_node(f->thread, at)->parent) {
        if (!at || (plain && drained[at].stack)) {
            *stack = at ? drained[at].stack : 0;
            break;
        }
        if (!map_memory_grow(&way->node, &way->bytes, n + 1, sizeof *way->node))
            return true;
        way->node[n++] = at;
    }
    while (n--) {
        uint64_t word = raw && !n ? canonical_word(f->words, raw) : 0;
        bool waits = raw && !n && !word && !f->now;
        int full;
        if (waits || (!word && !(word = word_of(f, way->node[n]))))
            return false;
        if (!stacks_is_full(f->tree, *stack))
            *stack = stacks_child(f->tree, *stack, word, &full);
        if (plain)
            drained[way->node[n]].stack = *stack;
    }
    return true;
}

/* The raw word of a note.  Of a code object that is gone by now, and whose place in the table another has, it is not known. */
static uint64_t numbered(const struct codes *codes, uint64_t at)
{
    uint32_t number = at ? codes_numbers(codes, frame_code_id(at)).number : 0;
    return number ? frame_python(number, at & PYH_OFFSET_MASK) : 0;
}

/* Takes the notes that came with the sample.  False: some are missing. */
static bool take_notes(struct caller_stacks *c, const struct codes *codes,
                       const struct sample_record *r)
{
    const struct caller_note *note = (const struct caller_note *)(r->words + r->n_words);
    uint32_t first = r->n_places - r->n_notes;
    if (first > c->n_places ||
        !map_memory_grow(&c->place, &c->bytes, r->n_places, sizeof *c->place))
        return false;
    for (uint32_t i = first; i < r->n_places; i++, note++) {
        c->place[i].node = (uint32_t)note->node;
        c->place[i].word = numbered(codes, note->at);
    }
    if (c->n_places != r->n_places || r->n_notes)
        c->base_node = 0;
    c->n_places = r->n_places;
    if (c->n_stacks > first)
        c->n_stacks = first;
    return true;
}

bool caller_stacks_find(struct caller_stacks *c, struct way_up *way, struct stacks *tree,
                        struct canonical *words, const struct codes *codes,
                        const struct sample_record *r, bool now, uint32_t *stack)
{
    struct exact_thread *t = r->base_thread;
    struct finder f = {way, tree, words, t, now};
    uint32_t base = (uint32_t)r->base_node, above = 0;
    *stack = 0;
    if (!r->n_places || !take_notes(c, codes, r))
        return !map_memory_grow(&t->drained, &t->drained_bytes, (size_t)base + 1,
                                sizeof *t->drained) ||
               descend(&f, 0, base, 0, true, stack);
    if (c->base_node == base) {
        *stack = c->base_stack;
        return true;
    }
    for (; c->n_stacks < c->n_places; c->n_stacks++) {
        if (c->n_stacks) {
            above = c->place[c->n_stacks - 1].node;
            *stack = c->place[c->n_stacks - 1].stack;
        }
        uint32_t i = c->n_stacks;
        if (!descend(&f, above, c->place[i].node, c->place[i].word, false, stack))
            return false;
        c->place[i].stack = *stack;
    }
    *stack = c->place[c->n_places - 1].stack;
    if (!descend(&f, c->place[c->n_places - 1].node, base, 0, false, stack))
        return false;
    c->base_node = base;
    c->base_stack = *stack;
    return true;
}
