/* trace_counters.h - the counters of the exact half's nodes, and which activations run: to the spool.
 *
 * Nodes' counters are replaced records of the spool, 64 to 1,024 nodes each, of which those that changed
 * are written.  The threads run meanwhile: each node's figures are of one moment, in which an activation
 * either runs or is counted.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_TRACE_COUNTERS_H
#define PYH_TRACE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "spool.h"

#define EXACT_BLOCK_MAX 1024

struct exact_block;
struct exact_thread;
struct exact_activation;

/* What trace_counters_write works in: not on the stack, for sampler_pause runs on one of the program's. */
struct trace_counters {
    struct exact_activation *running;
    size_t running_bytes;
    struct spool_exact_count rows[EXACT_BLOCK_MAX];
};

/* Those of the nodes that the spool has. */
void trace_counters_write(struct trace_counters *c, struct spool *s, struct exact_thread *t);

/* Gives each row of them to `take`, of one moment.  Where there is no memory it gives none. */
typedef void trace_counters_take(void *arg, uint32_t node, const struct spool_exact_count *row);
void trace_counters_read(struct trace_counters *c, struct exact_thread *t,
                         trace_counters_take *take, void *arg);

/* Writes the rows of nodes 1 to n of a tree that the spool knows by `index`, where they are others than the last time;
 * `*blocks`: that tree's, of `*blocks_bytes`. */
typedef struct spool_exact_count trace_counters_row(void *arg, uint32_t node);
void trace_counters_put(struct trace_counters *c, struct spool *s, uint32_t index, uint32_t n,
                        struct exact_block **blocks, size_t *blocks_bytes, trace_counters_row *row,
                        void *arg);
void trace_counters_free(struct trace_counters *c);

#endif
