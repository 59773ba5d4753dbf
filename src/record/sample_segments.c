/* sample_segments.c - samples in a bounded part of the spool (spool.h, SPOOL_SAMPLE_SEGMENT): of the oldest ones only sums are
 * kept, by thread and place, without their times.
 *
 * Context: as drain.h.
 */
#include "drain_parts.h"
#include <string.h>

#define SEGMENT_LEAST (32u << 10) /* more than a record of samples takes */
#define SEGMENT_MOST (4u << 20)   /* to merge one takes some ten milliseconds */
#define SUMS 512                  /* rows in one record */

void sample_segments_init(struct sample_segments *g, uint64_t bytes)
{
    if (!bytes)
        return;
    uint64_t size = bytes / 8 & ~4095ull;
    size = size < SEGMENT_LEAST ? SEGMENT_LEAST : size > SEGMENT_MOST ? SEGMENT_MOST : size;
    g->segment_bytes = (size_t)size;
    g->max = (uint32_t)(bytes / size < 2 ? 2 : bytes / size);
}

void sample_segments_free(struct sample_segments *g)
{
    map_memory_free(g->segment, g->list_bytes);
    map_memory_free(g->row, g->rows_bytes);
    map_memory_free(g->block, g->blocks_bytes);
    map_clear(&g->row_of);
}

static bool is_free(const struct sample_segments *g, uint32_t i)
{
    return g->segment[i].number < g->merged_before;
}

/* One that is in use no more; else a new one, whatever the bound: nothing is lost. */
static bool take_segment(struct sample_segments *g, struct spool *s)
{
    uint32_t i = 0;
    while (i < g->n && !is_free(g, i))
        i++;
    if (i == g->n) {
        if (!map_memory_grow(&g->segment, &g->list_bytes, i + 1, sizeof *g->segment) ||
            spool_segment_new(s, g->segment_bytes, &g->segment[i].at))
            return false;
        g->n++;
    }
    g->segment[i].number = ++g->last_number;
    g->current = i + 1;
    g->used = sizeof(struct spool_segment_head);
    return !spool_segment_begin(s, g->segment[i].at, g->last_number);
}

int sample_segments_append(struct sample_segments *g, struct spool *s, const void *head,
                           size_t head_length, const void *body, size_t body_length)
{
    size_t room = spool_segment_room(head_length + body_length);
    bool fits = g->current && g->used + room <= g->segment_bytes;
    if (!g->segment_bytes || (!fits && !take_segment(g, s)))
        return spool_append(s, SPOOL_SAMPLES, head, head_length, body, body_length);
    uint64_t at = g->segment[g->current - 1].at + g->used;
    g->used += room - sizeof(struct spool_record);
    return spool_segment_add(s, at, SPOOL_SAMPLES, head, head_length, body, body_length);
}

/* --- the sums ---------------------------------------------------------------------------------------- */

static uint64_t *number_of(struct sample_segments *g, uint32_t thread, uint32_t place)
{
    return map_put(&g->row_of, (uint64_t)thread << 32 | place);
}

/* Room for a row of each place.  False: no memory. */
static bool make_rows(struct sample_segments *g, const struct spool_samples *head,
                      const uint32_t *stack)
{
    for (uint32_t i = 0; i < head->n; i++) {
        uint64_t *number = number_of(g, head->thread, stack[i]);
        if (!number)
            return false;
        if (*number)
            continue;
        if (!map_memory_grow(&g->row, &g->rows_bytes, g->n_rows + 1, sizeof *g->row) ||
            !map_memory_grow(&g->block, &g->blocks_bytes, g->n_rows / SUMS + 1, sizeof *g->block))
            return false;
        g->row[g->n_rows] = (struct spool_sum){head->thread, stack[i], 0, 0, UINT64_MAX, 0};
        *number = ++g->n_rows;
    }
    return true;
}

static void add_samples(struct sample_segments *g, const struct spool_samples *head,
                        const uint32_t *dt)
{
    const uint32_t *stack = dt + head->n;
    const struct spool_weight *weight = (const struct spool_weight *)(stack + head->n);
    uint64_t now = head->first_ns;
    for (uint32_t i = 0, w = 0; i < head->n; i++) {
        now += dt[i];
        uint32_t number = (uint32_t)*number_of(g, head->thread, stack[i]) - 1;
        struct spool_sum *row = &g->row[number];
        row->n++;
        row->weight += w < head->n_weights && weight[w].index == i ? weight[w++].weight : 1;
        row->first_ns = now < row->first_ns ? now : row->first_ns;
        row->last_ns = now > row->last_ns ? now : row->last_ns;
        g->block[number / SUMS].changed = true;
    }
}

/* Adds what is in a segment.  False: no memory, and nothing is added. */
static bool add_segment(struct sample_segments *g, const unsigned char *data)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t at = sizeof(struct spool_segment_head);
        const struct spool_record *r;
        while ((r = (const struct spool_record *)(data + at))->mark == SPOOL_MARK) {
            const struct spool_samples *head = (const struct spool_samples *)(r + 1);
            const uint32_t *dt = (const uint32_t *)(head + 1);
            if (pass)
                add_samples(g, head, dt);
            else if (!make_rows(g, head, dt + head->n))
                return false;
            at += spool_segment_room(r->length) - sizeof *r;
        }
    }
    return true;
}

static void write_sums(struct sample_segments *g, struct spool *s)
{
    for (uint32_t first = 0; first < g->n_rows; first += SUMS) {
        struct sums_block *b = &g->block[first / SUMS];
        if (!b->changed)
            continue;
        uint32_t left = g->n_rows - first;
        struct spool_sums head = {.n = left < SUMS ? left : SUMS};
        b->changed = false;
        spool_replace(s, &b->place, SPOOL_SUMS, sizeof head + SUMS * sizeof *g->row, &head,
                      sizeof head, g->row + first, head.n * sizeof *g->row);
    }
    struct spool_merged merged = {g->merged_before};
    spool_replace(s, &g->merged_place, SPOOL_MERGED, sizeof merged, &merged, sizeof merged, NULL,
                  0);
    spool_commit(s);
}

void sample_segments_merge(struct sample_segments *g, struct spool *s)
{
    uint32_t oldest = 0;
    if (!g->segment_bytes || g->n < g->max || 2 * g->used < g->segment_bytes)
        return;
    for (uint32_t i = 0; i < g->n; i++) {
        if (is_free(g, i))
            return;
        if (g->segment[i].number < g->segment[oldest].number)
            oldest = i;
    }
    unsigned char *data = map_memory(g->segment_bytes);
    if (data && spool_read(s, g->segment[oldest].at, data, g->segment_bytes) &&
        add_segment(g, data)) {
        g->merged_before = g->segment[oldest].number + 1;
        write_sums(g, s);
    }
    map_memory_free(data, g->segment_bytes);
}

/* --- sample chunk ------------------------------------------------------------------------------ */

/* A thread's samples on their way to the spool: one SPOOL_SAMPLES record (spool.h).
 *
 * Context: as drain.h.
 */

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
