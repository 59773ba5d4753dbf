/* sample_chunk.h - a thread's samples on their way to the spool: one SPOOL_SAMPLES record (spool.h).
 *
 * Context: as drain.h.
 */
#ifndef PYH_SAMPLE_CHUNK_H
#define PYH_SAMPLE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "sample_segments.h"
#include "spool.h"

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

/* Is there no room for a sample of that time? */
bool sample_chunk_is_full(const struct sample_chunk *c, uint64_t time_ns);

/* `place`: the stack, with the flags beside it. */
void sample_chunk_add(struct sample_chunk *c, uint64_t time_ns, uint32_t weight, uint32_t place,
                      uint32_t cpu);

/* Appends them, if there are any, as thread `index`'s; the chunk is empty again. */
void sample_chunk_write(struct sample_chunk *c, struct spool *s, struct sample_segments *segments,
                        uint32_t index, struct sample_scratch *scratch);

#endif
