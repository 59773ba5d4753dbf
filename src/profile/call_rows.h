/* call_rows.h - from the turns of kept calls (kept_calls.h) to rows of the table `call`.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL where
 * there are more rows than ids, or -EOVERFLOW where a time has more than 63 bits.
 */
#ifndef PYH_CALL_ROWS_H
#define PYH_CALL_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* A tick has multiply / divide nanoseconds; `ticks` were at `ns`. */
struct call_clock {
    uint64_t multiply, divide;
    uint64_t ticks, ns;
};

/* The turns in order of time, those first that are a whole call: `row` counts them all by their begin, from 1. */
struct call_columns {
    uint32_t *row, *serial, *node;
    uint32_t *info; /* flags, and weight_bits << 16 */
    int64_t *begin_ns, *end_ns;
    uint32_t
        *around; /* the row of the innermost turn of the thread that it lies within; 0: of none */
    size_t n_whole, n;
};

/* Where the attributes of calls are. */
struct call_attributes {
    uint32_t *serial, *at, *length;
    size_t n;
};

/* The turns of which it is told what they used, in order of time: their rows, and where that stands. */
struct usage_places {
    uint32_t *row, *at;
    size_t n;
};

/* -1: not known. */
struct usage_columns {
    int64_t *cpu_begin_ns, *cpu_end_ns, *cpu_ns, *user_ns, *system_ns, *process_ns;
    int64_t *minor_faults, *major_faults, *voluntary, *involuntary;
    int64_t *resident_begin, *resident_end;
};

#define CALL_ROWS_ROOM(bytes) ((bytes) / 32)

/* Of one thread's turns, whose node i is node[i - 1] of the file; columns have CALL_ROWS_ROOM.  *n_damaged: turns without
 * a node, and what does not fit. */
int call_rows_of(const unsigned char *turns, size_t bytes, const uint32_t *node, size_t n_nodes,
                 const struct call_clock *clock, struct call_columns *columns,
                 struct call_attributes *attributes, struct usage_places *usage, size_t *n_damaged);

/* At the n places.  -EINVAL: one is none. */
int call_usage_of(const unsigned char *turns, size_t bytes, const uint32_t *at, size_t n,
                  const struct usage_columns *columns);

#endif
