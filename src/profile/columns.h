/* columns.h - passes over the columns of a tree, which views are made of.
 *
 * A tree of n rows is a column of parents: row 0 is the root, and parent[i] < i.  Other columns have a value
 * for each row.  Every pass is linear in the rows, and none knows what a column means.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL
 * where a column cannot be what it should be (a parent that is not above its row, a group that is not there), or
 * -EOVERFLOW where a sum has more than 63 bits.  Results are undefined then.
 */
#ifndef PYH_COLUMNS_H
#define PYH_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/* group[i] numbers the distinct pairs (a[i], b[i]) from 0 on in order of their first rows, which are first[group].
 * Both have room for n; *n_groups is how many there are. */
int columns_pairs(const uint32_t *a, const uint32_t *b, size_t n, uint32_t *group, uint32_t *first,
                  size_t *n_groups);

/* The same, of the distinct values of one column. */
int columns_distinct(const uint64_t *value, size_t n, uint32_t *group, uint32_t *first,
                     size_t *n_groups);

/* shifted[i] = value[i] + by. */
int columns_shift(const uint32_t *value, size_t n, uint64_t by, uint32_t *shifted);

/* Merges rows into paths: node[i] numbers the distinct paths of labels, in order of their first rows; 0 is the root.
 * how[i], of enum path_how, says which rows are no step of their own: these have the node of the row above.
 * `rather` (or NULL): a row that comes before, below whose node a row hangs instead, where its label has a node there that
 * is asked for by an earlier row (PATH_ASKED).
 * All columns have room for n; node_parent and node_label are the nodes', of which there are *n_nodes. */
enum path_how {
    PATH_ABOVE = 1,     /* none */
    PATH_NOT_FIRST = 2, /* none right below the root */
    PATH_RUN = 4,       /* none below a node of the same label */
    PATH_ASKED = 16,    /* its node takes in what would `rather` be there */
};
int columns_paths(const uint32_t *parent, const uint32_t *label, const uint8_t *how,
                  const uint32_t *rather, size_t n, uint32_t *node, uint32_t *node_parent,
                  uint32_t *node_label, size_t *n_nodes);

/* A finite automaton from the root down: state[i] = step[256 * (its parent's state) + input[i]], the root's is 0. */
int columns_descend(const uint32_t *parent, const uint8_t *input, size_t n, const uint8_t *step,
                    size_t n_states, uint8_t *state);

/* taken[i] = table[index[i]], of a table whose values have `size` bytes: 1, 4 or 8. */
int columns_take(const void *table, size_t size, size_t n_table, const uint32_t *index, size_t n,
                 void *taken);

/* The rows by (high, low); equal ones keep their order. */
int columns_order(const uint32_t *high, const uint32_t *low, size_t n, uint32_t *row);

/* marked[i] is 1 where i is one of `index`, else 0. */
int columns_mark(const uint32_t *index, size_t n, uint8_t *marked, size_t n_marked);

/* row[0 ... *n_rows - 1] are those whose value, of `size` bytes (1, 4, or 8 with a sign), is `least` or more. */
int columns_rows_from(const void *value, size_t size, size_t n, uint64_t least, uint32_t *row,
                      size_t *n_rows);

/* at[i]: i itself if it is marked, else the nearest row above it that is, or 0. */
int columns_nearest(const uint32_t *parent, const uint8_t *marked, size_t n, uint32_t *at);

/* Of each of the `n` rows of `from` its value and those of the rows above it, but for the root's, from itself on and
 * `most` at most: they are values[end[i - 1] ... end[i] - 1].  There is room for as many as columns_climb_room says. */
int columns_climb(const uint32_t *parent, const int64_t *value, size_t n_rows, const uint32_t *from,
                  size_t n, uint64_t most, int64_t *values, int64_t *end);
size_t columns_climb_room(const uint32_t *parent, size_t n_rows, const uint32_t *from, size_t n,
                          uint64_t most);

/* outer[i] is 1 where no marked row above i has its label. */
int columns_outermost(const uint32_t *parent, const uint32_t *label, const uint8_t *marked,
                      size_t n, uint8_t *outer);

/* Adds to each row's value those of all rows below it. */
int columns_inclusive(const uint32_t *parent, int64_t *value, size_t n);

/* Makes each row's value what its children's add up to, where that is more. */
int columns_at_least(const uint32_t *parent, int64_t *value, size_t n);

/* sum[g] = the values of the rows of group g; `where` NULL: all rows, else those where it is not 0.  `sum` is zeroed. */
int columns_add_up(const uint32_t *group, const int64_t *value, const uint8_t *where, size_t n,
                   int64_t *sum, size_t n_groups);

#endif
