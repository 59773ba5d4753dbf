#include "join.h"

#include "frame.h"
#include "instance_table.h"

struct output {
    uint64_t *words;
    size_t n, max;
};

static void emit(struct output *o, uint64_t word)
{
    if (o->n < o->max)
        o->words[o->n] = word;
    o->n++;
}

static void emit_regions(struct output *o, const struct regions *r, uint64_t frame, uint64_t code)
{
    for (uint32_t i = r->n; i--;)
        if (region_is_of(&r->slots[i], frame, code))
            emit(o, r->slots[i].word);
}

/* The object for which a method runs, if it is known. */
static void emit_instance(struct output *o, uint64_t frame)
{
    uint64_t word = instance_word_of_frame(frame);
    if (word)
        emit(o, word);
}

/* A Python frame, below the regions that it has entered. */
static void emit_python(struct output *o, const struct join_input *in, size_t at)
{
    const struct py_frame *f = &in->chain->frames[at];
    if (in->regions)
        emit_regions(o, in->regions, f->frame, f->code);
    emit(o, in->python[at]);
    uint64_t method = atomic_load_explicit(&instance_method, memory_order_relaxed);
    /* Of the one where the walk was to stop what is further out is known. */
    bool is_stop = in->chain->state == PY_STOPPED && f->frame == in->chain->stop_frame;
    if (f->code && f->code == method && !is_stop)
        emit_instance(o, f->frame);
}

/* An eval loop without an entry frame of its own. */
static void emit_eval(struct output *o, enum py_chain_state state)
{
    switch (state) {
    case PY_NONE:
    case PY_COMPLETE:
    case PY_STOPPED:
    case PY_LAUNCHED:
        break; /* in its prologue or epilogue: the Python frame is not there (yet, any more) */
    case PY_TRUNCATED:
    case PY_BROKEN:
        emit(o, frame_pseudo(PSEUDO_UNKNOWN_PYTHON));
        break;
    case PY_OTHER:
        emit(o, frame_pseudo(PSEUDO_OTHER_INTERPRETER));
        break;
    }
}

/* Called by the frame that holds the next entry frame, where an eval loop is one of handlers?  Then it is part of it. */
static bool is_handler(const struct join_input *in, size_t i, size_t entry)
{
    const struct native_frame *caller = &in->native[i + 1];
    return in->layout->by_handlers && i + 1 < in->n_native && !caller->flags &&
           entry < in->chain->n_entries && in->chain->anchors[entry] < caller->cfa;
}

/* For what the native frame that ends at `cfa` works: where that is a gap, or the walk ended before it, the gap stands for
 * the function that does the work, too.  `*cause`: those that are further out, and it, or that are left. */
static void emit_causes(struct output *o, const struct causes *c, uint32_t *cause, uint64_t cfa)
{
    for (; *cause && c->at[*cause - 1].address < cfa; --*cause)
        if (c->at[*cause - 1].word)
            emit(o, c->at[*cause - 1].word);
}

static uint32_t n_causes(const struct causes *c)
{
    uint32_t n = c ? atomic_load_explicit(&c->n, memory_order_relaxed) : 0;
    return n < CAUSES_MAX ? n : CAUSES_MAX;
}

size_t join_stack(const struct join_input *in, uint64_t *out, size_t max)
{
    const struct py_chain *chain = in->chain;
    struct output o = {out, 0, max};
    size_t python = 0, entry = 0;
    uint32_t cause = n_causes(in->causes);
    for (size_t i = 0; i < in->n_native; i++) {
        const struct native_frame *f = &in->native[i];
        size_t entries_before = entry;
        emit_causes(&o, in->causes, &cause, f->cfa);
        if (f->flags)
            emit(&o, frame_pseudo(f->flags == NATIVE_GAP_SCANNED ? PSEUDO_BRIDGED : PSEUDO_GAP));
        for (; entry < chain->n_entries && chain->anchors[entry] < f->cfa; entry++)
            for (; python < chain->entries[entry].n_frames; python++)
                emit_python(&o, in, python);
        if (entry != entries_before || f->flags || is_handler(in, i, entry))
            continue;
        if (!pyframe_is_eval(in->layout, f->pc)) {
            emit(&o, frame_native(f->pc));
        } else if (entry == chain->n_entries) {
            /* Where the chain broke off inside a run, this is the run's eval loop. */
            for (; python < chain->n_frames; python++)
                emit_python(&o, in, python);
            emit_eval(&o, chain->state);
        } /* else in its prologue or epilogue: the next entry frame is further out */
    }
    /* The native walk ended early: what Python knows further out still holds. */
    if (in->end != UNWIND_COMPLETE) {
        for (; entry < chain->n_entries; entry++) {
            emit_causes(&o, in->causes, &cause, chain->anchors[entry]);
            emit(&o, frame_pseudo(PSEUDO_GAP));
            for (; python < chain->entries[entry].n_frames; python++)
                emit_python(&o, in, python);
        }
        if (chain->state != PY_STOPPED) /* else they may be further out than what is asked for */
            emit_causes(&o, in->causes, &cause, UINT64_MAX);
        emit(&o, frame_pseudo(PSEUDO_TRUNCATED));
    }
    if (in->to_root && in->regions)
        emit_regions(&o, in->regions, REGION_OF_THREAD, 0);
    if (o.n > max) {
        o.n = max;
        out[max - 1] = frame_pseudo(PSEUDO_TRUNCATED);
    }
    if (!o.n)
        emit(&o, frame_pseudo(PSEUDO_TRUNCATED));
    return o.n;
}
