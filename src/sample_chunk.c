#include "sample_chunk.h"

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
    c->dt[c->n] = (uint32_t)(time_ns - c->last_ns);
    c->stack[c->n] = c->last_place = place;
    if (!c->n || cpu != c->last_cpu)
        c->cpus[c->n_cpus++] = (struct spool_cpu){c->n, cpu};
    if (weight != 1)
        c->weights[c->n_weights++] = (struct spool_weight){c->n, weight};
    c->last_ns = time_ns;
    c->last_cpu = cpu;
    c->n++;
}

static uint32_t *put_array(uint32_t *to, const void *array, size_t bytes)
{
    memcpy(to, array, bytes);
    return to + bytes / sizeof *to;
}

void sample_chunk_write(struct sample_chunk *c, struct spool *s, uint32_t index,
                        struct sample_scratch *scratch)
{
    if (!c->n)
        return;
    struct spool_samples head = {.thread = index,
                                 .n = c->n,
                                 .n_weights = c->n_weights,
                                 .n_cpus = c->n_cpus,
                                 .first_ns = c->first_ns};
    uint32_t *data = scratch->word, *end = data;
    end = put_array(end, c->dt, c->n * sizeof *c->dt);
    end = put_array(end, c->stack, c->n * sizeof *c->stack);
    end = put_array(end, c->weights, c->n_weights * sizeof *c->weights);
    end = put_array(end, c->cpus, c->n_cpus * sizeof *c->cpus);
    spool_append(s, SPOOL_SAMPLES, &head, sizeof head, data, (size_t)(end - data) * sizeof *data);
    c->n = c->n_weights = c->n_cpus = 0;
}
