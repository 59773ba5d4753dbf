/* sample_segments.h - samples in a bounded part of the spool (spool.h, SPOOL_SAMPLE_SEGMENT): of the oldest ones only sums are
 * kept, by thread and place, without their times.
 *
 * Context: as drain.h.
 */
#ifndef PYH_SAMPLE_SEGMENTS_H
#define PYH_SAMPLE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map.h"
#include "spool.h"

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

/* `bytes`: of all samples' records together; 0: as many as come. */
void sample_segments_init(struct sample_segments *g, uint64_t bytes);
void sample_segments_free(struct sample_segments *g);

/* As spool_append, of a SPOOL_SAMPLES record. */
int sample_segments_append(struct sample_segments *g, struct spool *s, const void *head,
                           size_t head_length, const void *body, size_t body_length);

/* Adds the oldest segment to the sums if it will be needed soon.  Between two rounds of the spool: it commits one. */
void sample_segments_merge(struct sample_segments *g, struct spool *s);

#endif
