/* drain_parts.h - what drain.c is made of; for the collector's thread, unless otherwise stated.
 */
#ifndef PYH_DRAIN_PARTS_H
#define PYH_DRAIN_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map.h"
#include "spool.h"

/* --- canonical.c --------------------------------------------------------------------------------- */

struct code_record;
struct spool;
struct canonical;

struct canonical *canonical_new(struct spool *s); /* NULL: no memory */
void canonical_free(struct canonical *w);

/* Takes a code object that was met for the first time. */
void canonical_take_code(struct canonical *w, const struct code_record *r);

/* Returns the canonical word, or 0 if the code object's record has not come yet. */
uint64_t canonical_word(struct canonical *w, uint64_t raw);

/* Returns the canonical word of the function that starts there, if a word was of it; else 0. */
uint64_t canonical_function(const struct canonical *w, uint64_t start);

/* Call them before and after a pass.  canonical_begin returns whether libraries were loaded, or what was known by
 * address holds no more (MODULES_WENT). */
enum modules_change canonical_begin(struct canonical *w);
void canonical_end(struct canonical *w);

/* --- modules.c ----------------------------------------------------------------------------------- */

struct modules;
struct spool;

enum modules_change { MODULES_SAME, MODULES_CAME, MODULES_WENT /* and perhaps came */ };

struct modules *modules_new(void); /* NULL: no memory */
void modules_free(struct modules *m);

/* Looks for changes (a few hundred ns if there are none); new modules and ends of old ones go to
 * the spool. */
enum modules_change modules_update(struct modules *m, struct spool *s);

/* Forgets, for modules_word, the modules that ended: call it when all samples taken before the
 * last modules_update are through. */
void modules_drop_ended(struct modules *m);

/* Returns the canonical frame word of a native address (frame.h). */
uint64_t modules_word(const struct modules *m, uint64_t pc);

/* --- caller_stacks.c ----------------------------------------------------------------------------- */

struct canonical;
struct codes;
struct sample_record;
struct stacks;

struct caller_stacks {
    struct {
        uint32_t node, stack;
        uint64_t word; /* raw; 0: without an instruction */
    } *place;          /* the outermost first */
    size_t bytes;
    uint32_t n_places, n_stacks;    /* that are known; whose stack is known, too */
    uint32_t base_node, base_stack; /* of the last sample; 0: not known */
};

/* Room for the way from one node up to another, whatever thread's. */
struct way_up {
    uint32_t *node;
    size_t bytes;
};

/* Forgets the stacks: addresses may mean other libraries now. */
void caller_stacks_forget(struct caller_stacks *c);
void caller_stacks_free(struct caller_stacks *c);

/* Finds the stack of r->base_node in `tree`.  Returns false as long as a code object's record has not come (with `now`,
 * it goes without). */
bool caller_stacks_find(struct caller_stacks *c, struct way_up *way, struct stacks *tree,
                        struct canonical *words, const struct codes *codes,
                        const struct sample_record *r, bool now, uint32_t *stack);

/* --- kernel_ticks.c ------------------------------------------------------------------------------ */

struct tick {
    uint64_t time_ns;
    uint32_t chain, pad; /* where in the kernel, by the caller's numbers; 0: in the program */
};

/* Those that no sample has taken yet, in order of time.  Zeroed at first. */
struct kernel_ticks {
    struct tick *of;
    size_t bytes, n;
};

/* Adds a tick; ticks need not come in order.  Returns false if there is no memory. */
bool kernel_ticks_add(struct kernel_ticks *t, uint64_t time_ns, uint32_t chain);
void kernel_ticks_free(struct kernel_ticks *t);

/* The parts of one sample: ticks in a row at the same place are one. */
struct tick_parts {
    const struct tick *of;
    size_t n, from, at; /* n: ticks that the sample takes, 0: nothing is known */
    uint64_t time_ns;
    uint32_t weight, given;
};

struct tick_part {
    uint64_t time_ns;
    uint32_t weight, chain;
    bool last;
};

struct tick_parts kernel_ticks_of_sample(const struct kernel_ticks *t, uint64_t time_ns,
                                         uint32_t weight);
bool kernel_ticks_next(struct tick_parts *p, struct tick_part *part); /* false: there is none */

/* Drops the ticks that a sample has taken. */
void kernel_ticks_drop(struct kernel_ticks *t, const struct tick_parts *p);

/* --- sample_segments.c --------------------------------------------------------------------------- */

#define SEGMENTS_LEAST_BYTES (128u << 10) /* of all together */

struct sample_segments {
    size_t segment_bytes; /* of one; 0: the timeline has no bound */
    uint32_t max;         /* how many there are to be */
    struct sample_segment {
        uint64_t at, number; /* spool.h */
    } *segment;
    size_t list_bytes;
    uint32_t n, current; /* from 1; 0: none yet */
    size_t used;         /* of the current one */
    uint64_t last_number, merged_before;
    struct map row_of; /* thread and place -> number of a row, from 1 */
    struct spool_sum *row;
    size_t rows_bytes;
    uint32_t n_rows;
    struct spool_place merged_place;
    struct sums_block {
        struct spool_place place;
        bool changed;
    } *block;
    size_t blocks_bytes;
};

/* `bytes` is the bound of all samples' records together; 0: as many as come. */
void sample_segments_init(struct sample_segments *g, uint64_t bytes);
void sample_segments_free(struct sample_segments *g);

/* Does as spool_append, for a SPOOL_SAMPLES record. */
int sample_segments_append(struct sample_segments *g, struct spool *s, const void *head,
                           size_t head_length, const void *body, size_t body_length);

/* Adds the oldest segment to the sums if it will be needed soon.  Between two rounds of the spool: it commits one. */
void sample_segments_merge(struct sample_segments *g, struct spool *s);

/* --- sample_segments.c ------------------------------------------------------------------------------ */

#define SAMPLE_CHUNK 1024

struct sample_chunk {
    uint32_t n, n_weights, n_cpus;
    uint64_t first_ns, last_ns;
    uint32_t last_place, last_cpu;
    /* The record's arrays side by side: as much memory is touched as there are samples. */
    struct {
        uint32_t dt, stack;
        struct spool_weight weight; /* of the n_weights, not of this sample */
        struct spool_cpu cpu;       /* of the n_cpus */
    } of[SAMPLE_CHUNK];
};

/* What sample_chunk_write needs to work in. */
struct sample_scratch {
    uint32_t word[6 * SAMPLE_CHUNK];
};

/* Returns whether there is no room for a sample of that time. */
bool sample_chunk_is_full(const struct sample_chunk *c, uint64_t time_ns);

/* Adds a sample; `place` is the stack, with the flags beside it. */
void sample_chunk_add(struct sample_chunk *c, uint64_t time_ns, uint32_t weight, uint32_t place,
                      uint32_t cpu);

/* Appends them, if there are any, as thread `index`'s; the chunk is empty again. */
void sample_chunk_write(struct sample_chunk *c, struct spool *s, struct sample_segments *segments,
                        uint32_t index, struct sample_scratch *scratch);

#endif
