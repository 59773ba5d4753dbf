/* call_tree.h - the exact half's call trees: written by the callbacks of sys.monitoring, read by the
 * drain while they grow.
 *
 * Each thread of the program has a tree and a shadow stack of its own: one writer, no lock.  A node
 * is (parent node, frame word); Python nodes carry counters, native ones stand where C called
 * Python, and carry counters where calls of C functions are counted (C_CALL); the lines of a chosen
 * function are leaves below its node: `calls` are LINE events.  Nodes never move and are never removed;
 * what a reader may see is below `n`.
 *
 * Times are ticks of one clock (exact_ticks), the TSC where it can be trusted: the drain writes
 * pairs of (ticks, CLOCK_MONOTONIC), and who reads the spool converts.
 *
 * Context: functions that the callbacks call need the GIL, which makes all threads' callbacks one writer of what they
 * share (the queue of code objects).  exact_child and exact_add_thread do not.  exact_read_* are the drain's.
 */
#ifndef PYH_CALL_TREE_H
#define PYH_CALL_TREE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch_x86_64.h"
#include "block_queue.h"
#include "kept_calls.h"
#include "map.h"
#include "clock.h"
#include "codes.h"
#include "event_log.h"
#include "frame.h"
#include "pyframe.h"
#include "unwind.h"
#include "watched_calls.h"

/* A tree's memory: each chunk is twice as large as the one before. */
#define EXACT_CHUNK_BITS 6 /* nodes in the first one */
#define EXACT_CHUNKS 22
#define EXACT_NODES_MAX ((1u << (EXACT_CHUNK_BITS + EXACT_CHUNKS)) - (1u << EXACT_CHUNK_BITS) - 1)

#define EXACT_NATIVE_MAX 4096 /* frames between two eval loops */

/* One cache line.  Counters are relaxed atomics with one writer. */
struct exact_node {
    /* Raw (frame.h): a function, called last by this code object; a C function's start; a pseudo-frame. */
    _Atomic uint64_t word;
    uint32_t id, parent;
    struct exact_node *hot[2]; /* Python children called last, by a bit of the code's address */
    _Atomic uint64_t calls, resumes, total_ticks;
    _Atomic uint32_t raised, seeded;
};

enum exact_frame_flags {
    EXACT_RECORDED = 1, /* its events come: it is timed, and its end is seen */
    EXACT_LINKED = 2,   /* `throw` went through it to the generator above: it ends with that one */
    EXACT_REGION = 4,   /* a named region of the frame below it, or exact_is_fired */
    EXACT_KEPT =
        8, /* each call of it is kept or watched; its open call, if it has one, is in the upper half */
    EXACT_LEFT =
        16, /* a region that ends, not only its turn; a native one, when what is above it has ended */
    EXACT_LINES = 32,      /* its lines are recorded, too: exact_thread.line */
    EXACT_IN_C = 64,       /* it waits for a C function: c_calls[] of its place in the stack */
    EXACT_NATIVE = 128,    /* a region that native code pushed */
    EXACT_OPAQUE = 256,    /* what it calls is not counted: exact_thread.opaque */
    EXACT_AWAITED = 512,   /* its end is wanted: instances_await_end */
    EXACT_REST = 1 << 13,  /* from a call that it made on to its end it is watched (watch_list.c) */
    EXACT_USAGE = 7 << 10, /* enum usage_kinds: what is recorded of this call */
    EXACT_TASK = 1 << 13,  /* a task's turn: it stands elsewhere in the tree than what calls it */
};
#define EXACT_USAGE_SHIFT 10
#define EXACT_CALL_SHIFT 32

/* The listeners for single turns. */
enum exact_turns {
    TURNS_LOGGED = 1,  /* the event log */
    TURNS_EMITTED = 2, /* sinks (emit/sink.h) */
};

/* One running Python function, as the callbacks know it. */
struct exact_frame {
    uint64_t
        frame; /* its _PyInterpreterFrame; of a region that of its function, or REGION_OF_THREAD */
    uint64_t entry; /* the entry frame of its eval loop */
    struct exact_node *node;
    uint64_t since; /* ticks */
    uint64_t flags;
};

/* Returns whether it is a function that native code has fired the begin of, which has no frame: it stands on the frame
 * of another one. */
static inline bool exact_is_fired(const struct exact_frame *f)
{
    return f->flags & EXACT_REGION && frame_tag(f->node->word) == PYH_TAG_FUNCTION;
}

/* Sets the flags: EXACT_IN_C after what it stands for is written, and takes it away after that is counted, for the
 * drain reads it. */
static inline void exact_set_flags(struct exact_frame *f, uint64_t flags)
{
    __atomic_store_n(&f->flags, flags, __ATOMIC_RELEASE);
}

/* Children that were found lately, of nodes that call more than two Python functions, or native ones: direct-mapped. */
struct exact_child {
    const struct exact_node *parent;
    uint64_t
        key; /* a code object's id (codes.h), or a word, which may not be the child's (native_path.c) */
    struct exact_node *node;
};

/* The line that a running function is on. */
struct exact_line {
    struct exact_node *node; /* NULL: none that is known */
    uint64_t since;          /* ticks; 0: since the function's begin */
};

/* An instruction where a function was suspended, and its line: to find that takes the interpreter
 * microseconds. */
#define EXACT_PLACES 128
struct exact_place {
    const struct exact_node *function; /* NULL: free */
    struct exact_node *line;
    uint64_t at; /* the code object's id, and the offset */
};

/* A C function that a frame of the stack called: one at a time.  Not in the stack itself, where Python
 * functions that it calls back look for their Python caller. */
struct exact_c_call {
    struct exact_node *node;
    uint64_t since; /* ticks */
};

/* What the drain knows of a node. */
struct exact_drained {
    uint32_t stack; /* the one for the samples that hang on it; 0: not yet */
    uint32_t open;  /* its place, from 1, among the activations that run; 0: none does */
    uint32_t fold;  /* its node in the tree of the threads with which its own is one row */
};

/* The drain's: nodes whose counters are one record of the spool. */
struct exact_block;
struct thread_fold;           /* record/thread_folds.c */
#define EXACT_FIRST_BLOCKS 24 /* words: room for some in a thread's first mapping */
struct spool_place;

/* Native paths that were walked before (path_memo.h). */
struct memo {
    struct memo_set *set;
    uint32_t n_sets;
    uint32_t n_replaced; /* of those that were met again */
    uint32_t skips,
        n_skipped; /* new ones that are not kept, for each that is; since the last that was */
};

#define EXACT_NAME_MAX 64
struct exact_thread {
    struct exact_thread *next;
    pid_t tid;
    uint64_t first_ns;
    char comm[16];
    char name[EXACT_NAME_MAX]; /* threading's; empty: none */
    _Atomic int ended;
    bool started;        /* a function began; those that ran before are in the stack */
    bool without_gil;    /* what begins or ends just now: no sink is notified of it */
    uint64_t opaque;     /* the frame of the function whose callees are not counted; 0: none runs */
    uint32_t n_moving;   /* native regions that are to stand on another function (region_stack.c) */
    uint64_t underflows; /* ends of functions whose begin was not seen */
    const uint64_t
        *counter; /* makers.h: a counter of a library's, and what it was at the last event */
    uint64_t seen;
    struct maker_ring *origins; /* NULL: none yet */

    struct exact_node root; /* id 0 */
    struct exact_node *chunk[EXACT_CHUNKS];
    _Atomic uint32_t n; /* ids 1..n exist */
    uint32_t *table, mask;
    struct exact_child *children;
    uint32_t child_bits;

    /* The drain reads them, too: what is below `depth` is whole (exact_set_depth). */
    struct exact_frame *stack;
    struct exact_c_call *c_calls; /* beside `stack`; NULL: not counted */
    uint32_t depth, capacity;
    struct exact_frame *
        outgrown; /* the stack before, which the drain may read: its first frame has the one before, and its size */
    struct exact_line *line; /* by place in the stack; made when it is needed */
    uint32_t n_lines;
    struct exact_place *place; /* direct-mapped; made with `line` */

    struct unwind unwind; /* for the native frames between */
    struct memo memo;
    uint64_t serial; /* of all in the session */

    struct event_ring events;
    uint32_t log;    /* the number of the log (struct exact) that it has begun */
    uint32_t handle; /* its lower bits of pthread_self(): CUPTI distinguishes threads by these */
    void *emitted;   /* what sinks keep for the thread; NULL: they do not know it */
    size_t emitted_bytes;
    struct calls calls;
    struct usage_reading
        *usage; /* by place in the stack, of calls that are kept; made when it is needed */
    size_t usage_bytes;
    struct watched_calls watched;
    struct cpu_clock {
        uint64_t ns, at_ns; /* its CPU time at a time of clock_now_ns; 0: not read yet */
        uint64_t switches;  /* of context, until then */
        uint64_t last_ns;   /* recorded; it does not go back */
    } cpu_clock;            /* usage.c */
    uint32_t kept;          /* the serial of the call that ended last, if it was kept */

    uint32_t n_written;            /* the drain's: nodes that the spool has */
    struct exact_drained *drained; /* the drain's: of each node */
    size_t drained_bytes;
    struct exact_block *blocks; /* the drain's, with the counters of nodes in the spool */
    size_t blocks_bytes;
    struct spool_place *call_places; /* the drain's: records with durations of nodes' calls */
    size_t call_places_bytes;
    uint32_t n_call_places;
    uint64_t events_ticks; /* the drain's: of the last event that it took */
    uint32_t index;        /* the drain's, from 1 */
    struct thread_fold
        *fold;      /* the drain's: the threads with which it is one row; NULL: with none */
    bool is_folded; /* the drain's: its counters are there for good */
};

/* What begins and ends took that were not those of a call by the top of the stack, estimated: now and then one is
 * timed, and stands for those since the last one. */
struct callback_times {
    uint32_t until, stands_for; /* the next one that is timed */
    bool all;                   /* each is */
    uint64_t seed;
    uint64_t usual; /* ticks that one takes where it is that of such a call */
    int64_t ticks;  /* that they took in all beyond this */
};

struct exact {
    uint32_t generation;
    struct callback_times slow;
    struct codes *codes;
    const struct py_layout *layout;
    uint64_t main_stack_high;
    uint64_t start_ticks;
    uint64_t origin_ticks,
        origin_ns;            /* the same moment on both clocks, before anything was counted */
    _Atomic uint32_t n_nodes; /* of all threads */
    uint32_t max_nodes;
    bool use_tsc;
    bool all_events;     /* every Python function is recorded */
    bool names_threads;  /* each thread gets a record, whatever is left out: for its name */
    bool plain;          /* so most events need no more than a few instructions */
    uint8_t turns;       /* enum exact_turns: who is notified of every begin and end; 0: nobody */
    bool logs;           /* threads have an event log */
    bool logs_by_window; /* it is on now and then (turns_log) */
    uint32_t log;        /* how often it was switched on */
    uint8_t usage;       /* enum usage_kinds: what is recorded of calls that are kept */
    bool usage_by_name;  /* and more of those of some functions (filter.h) */
    bool counts; /* events are on for the tree's sake; false: only while a sink wants them */
    struct open_calls open;
    uint32_t n_watched; /* calls, of all threads */
    uint32_t n_collections;
    struct {
        uint64_t n, ticks;
    } collections[EXACT_GENERATIONS]; /* of garbage, with those that are not kept */
    bool lines;                       /* of functions that a filter selects */
    bool c_calls;                     /* and so are calls of C functions */
    bool tasks; /* asyncio's stand below what made them (instrument/tasks.h) */
    /* PYH_FUNCTION_OWN, _KEPT and the like that are to stand in the new node `word` below `parent`, of the code that
     * runs with these globals (0: not known).  NULL: none. */
    uint64_t (*marks)(struct exact *x, const struct exact_thread *t,
                      const struct exact_node *parent, uint64_t word, uint64_t code,
                      uint64_t globals);
    _Atomic uint64_t serials;
    struct paths *paths; /* path_memo.h */
    _Atomic(struct exact_thread *) threads;
    pthread_mutex_t lock; /* of what walks along `threads`, against removal */
    uint32_t n_holds;     /* guarded by it: while there are any, threads that have ended stay */
    struct block_queue code_facts; /* spool_code_facts: from who has the GIL to the drain */
    struct map facts_recorded;     /* of which functions */
    struct block_queue new_codes;  /* code records: from who has the GIL to the drain */
};

/* The running session's trees, or NULL. */
extern _Atomic(struct exact *) exact_current;

/* The calling thread's record, valid while `generation` is the session's.  `busy` is set inside a callback,
 * so that the handler does not trust the shadow stack; `own` while it works for us (own_work_begin). */
struct exact_this_thread {
    struct exact_thread *thread;
    uint32_t generation;
    _Atomic int busy, own;
};
extern __thread struct exact_this_thread exact_this_thread;

static inline uint64_t exact_ticks(const struct exact *x)
{
    return x->use_tsc ? arch_ticks() : clock_now_ns();
}

/* Returns NULL if there is no memory. */
struct exact *exact_new(struct codes *codes, const struct py_layout *layout,
                        uint64_t main_stack_high, uint32_t max_nodes);
void exact_free(struct exact *x);

/* Call it in a forked child: there is no session, and no lock is held. */
void exact_after_fork_child(void);

/* Makes and publishes the calling thread's record; NULL: no memory.  `name` is shorter than EXACT_NAME_MAX. */
struct exact_thread *exact_add_thread(struct exact *x, const char *name);

/* They return the child of `parent` for the code object at `code`, or for a native or pseudo-frame `word`; at
 * the bound, the parent's [tree full] child, which is its own child. */
struct exact_node *exact_find_python(struct exact *x, struct exact_thread *t,
                                     struct exact_node *parent, uint64_t code, uint64_t globals);
struct exact_node *exact_child(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t word);

static inline struct exact_child *exact_child_place(const struct exact_thread *t,
                                                    const struct exact_node *parent, uint64_t key)
{
    uint64_t hash = ((uint64_t)parent ^ key << 24) * 0x9e3779b97f4a7c15ull;
    return &t->children[hash >> (64 - t->child_bits)];
}

/* Returns the child that was found by that key lately; NULL: it is to be looked for. */
static inline struct exact_node *exact_known_child(const struct exact_thread *t,
                                                   const struct exact_node *parent, uint64_t key)
{
    const struct exact_child *c = exact_child_place(t, parent, key);
    return c->parent == parent && c->key == key ? c->node : NULL;
}

/* Makes it found by that key from now on; not for use where the tree is full. */
static inline void exact_remember_child(struct exact_thread *t, const struct exact_node *parent,
                                        uint64_t key, struct exact_node *n)
{
    *exact_child_place(t, parent, key) = (struct exact_child){parent, key, n};
}

/* Returns the child for a region that is likely to be met again there: it is remembered as those that are called. */
struct exact_node *exact_find_region(struct exact *x, struct exact_thread *t,
                                     struct exact_node *parent, uint64_t word);

/* Returns the id of the code object at `code`, which is alive, and whose names go to the drain the first time; 0: not
 * possible. */
uint64_t exact_intern_code(struct exact *x, uint64_t code);

/* Returns whether the code object is one of the function for which `n`, a node of one, stands. */
static inline bool exact_is_of(const struct exact *x, const struct exact_node *n, uint64_t code)
{
    return codes_numbers(x->codes, codes_find(x->codes, code)).function ==
           (n->word & PYH_FUNCTION_MASK);
}

/* Returns the child for the code object at `code` if it is one of those called last, else NULL. */
static inline struct exact_node *exact_hot_child(const struct exact *x,
                                                 const struct exact_node *parent, uint64_t code)
{
    struct exact_node *n = parent->hot[code >> 6 & 1];
    return n && codes_holds(x->codes, frame_code_id(n->word), code) ? n : NULL;
}

static inline struct exact_node *exact_python_child(struct exact *x, struct exact_thread *t,
                                                    struct exact_node *parent, uint64_t code,
                                                    uint64_t globals)
{
    struct exact_node *n = exact_hot_child(x, parent, code);
    return n ? n : exact_find_python(x, t, parent, code, globals);
}

static inline bool exact_is_own(const struct exact_node *n)
{
    return frame_tag(n->word) == PYH_TAG_FUNCTION && n->word & PYH_FUNCTION_OWN;
}

static inline bool exact_is_kept(const struct exact_node *n)
{
    return frame_tag(n->word) == PYH_TAG_FUNCTION && n->word & PYH_FUNCTION_KEPT;
}

static inline bool exact_is_watched(const struct exact_node *n)
{
    return frame_tag(n->word) == PYH_TAG_FUNCTION && n->word & PYH_FUNCTION_WATCHED;
}

static inline bool exact_is_full(const struct exact_node *n)
{
    return n->word == frame_pseudo(PSEUDO_TREE_FULL);
}

/* Makes room for one more frame.  Returns false if there is no memory. */
bool exact_grow_stack(struct exact_thread *t);

/* Sets the depth: a frame is written before it lies below `depth`, its figures are counted before it does no more. */
static inline void exact_set_depth(struct exact_thread *t, uint32_t depth)
{
    __atomic_store_n(&t->depth, depth, __ATOMIC_RELEASE);
}

/* For the drain: returns the next code record of the queue, which stays until the next call; NULL: none. */
const struct code_record *exact_read_code(struct exact *x);
const struct exact_node *exact_read_node(const struct exact_thread *t, uint32_t id);
/* Takes out a thread that ended, when all of it has been written; its nodes count no more in `n_nodes` if it is folded.
 * `before` is the one before it in the list, or NULL if there was none.  Returns false if threads are held
 * (function_figures.h). */
bool exact_remove_thread(struct exact *x, struct exact_thread *before, struct exact_thread *t);

#endif
