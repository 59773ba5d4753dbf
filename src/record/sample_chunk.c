/* sample_chunk.c - a thread's samples on their way to the spool: one SPOOL_SAMPLES record (spool.h).
 *
 * Context: as drain.h.
 */
#include "drain_parts.h"

#include <string.h>

bool sample_chunk_is_full(const struct sample_chunk *c, uint64_t time_ns)
{
    return c->n == SAMPLE_CHUNK || (c->n && time_ns - c->last_ns > UINT32_MAX);
}

void sample_chunk_add(struct sample_chunk *c, uint64_t time_ns, uint32_t weight, uint32_t place,
                      uint32_t cpu)
{
    if (!c->n)
        c->first_ns = c->last_ns = time_ns;
    c->of[c->n].dt = (uint32_t)(time_ns - c->last_ns);
    c->of[c->n].stack = c->last_place = place;
    if (!c->n || cpu != c->last_cpu)
        c->of[c->n_cpus++].cpu = (struct spool_cpu){c->n, cpu};
    if (weight != 1)
        c->of[c->n_weights++].weight = (struct spool_weight){c->n, weight};
    c->last_ns = time_ns;
    c->last_cpu = cpu;
    c->n++;
}

/* The first `n` of one of the arrays, whose first element is `bytes` at `first`. */
static uint32_t *put_array(uint32_t *to, const struct sample_chunk *c, const void *first,
                           size_t bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, to += bytes / sizeof *to)
        memcpy(to, (const char *)first + i * sizeof *c->of, bytes);
    return to;
}

void sample_chunk_write(struct sample_chunk *c, struct spool *s, struct sample_segments *segments,
                        uint32_t index, struct sample_scratch *scratch)
{
    if (!c->n)
        return;
    struct spool_samples head = {.thread = index,
                                 .n = c->n,
                                 .n_weights = c->n_weights,
                                 .n_cpus = c->n_cpus,
                                 .first_ns = c->first_ns};
    uint32_t *data = scratch->word, *end = data;
    end = put_array(end, c, &c->of->dt, sizeof c->of->dt, c->n);
    end = put_array(end, c, &c->of->stack, sizeof c->of->stack, c->n);
    end = put_array(end, c, &c->of->weight, sizeof c->of->weight, c->n_weights);
    end = put_array(end, c, &c->of->cpu, sizeof c->of->cpu, c->n_cpus);
    sample_segments_append(segments, s, &head, sizeof head, data,
                           (size_t)(end - data) * sizeof *data);
    c->n = c->n_weights = c->n_cpus = 0;
}
