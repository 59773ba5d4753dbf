/* columns.c - passes over the columns of a tree, which views are made of.
 *
 * A tree of n rows is a column of parents: row 0 is the root, and parent[i] < i.  Other columns have a value
 * for each row.  Every pass is linear in the rows, and none knows what a column means.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL
 * where a column cannot be what it should be (a parent that is not above its row, a group that is not there), or
 * -EOVERFLOW where a sum has more than 63 bits.  Results are undefined then.
 */
#include "passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Open addressing; a slot holds a group's number plus 1, so that zeroed memory is empty.  Keys are pairs (a, b), or one
 * column of 64 bits. */
struct keys {
    uint32_t *slots;
    size_t mask;
    const uint32_t *a, *b;
    const uint64_t *wide;
};

static uint64_t mix(uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull; /* 2^64 over the golden ratio: Knuth, TAOCP 6.4 */
    return key ^ key >> 29;
}

static uint64_t key_of(const struct keys *k, size_t row)
{
    return k->wide ? k->wide[row] : (uint64_t)k->a[row] << 32 | k->b[row];
}

static int slots_new(struct keys *k, size_t n_slots)
{
    k->mask = n_slots - 1;
    k->slots = calloc(n_slots, sizeof *k->slots);
    return k->slots ? 0 : -ENOMEM;
}

/* The slot of the key in row i: its group's, or an empty one; `first` NULL: group g's is row g. */
static uint32_t *find(const struct keys *k, const uint32_t *first, size_t i)
{
    uint64_t key = key_of(k, i);
    size_t at = mix(key) & k->mask;
    for (;; at = (at + 1) & k->mask) {
        uint32_t *slot = &k->slots[at];
        if (!*slot || key_of(k, first ? first[*slot - 1] : *slot - 1) == key)
            return slot;
    }
}

static int grow(struct keys *k, const uint32_t *first, size_t n_groups)
{
    struct keys larger = *k;
    int r = slots_new(&larger, 2 * (k->mask + 1));
    if (r)
        return r;
    for (size_t g = 0; g < n_groups; g++)
        *find(&larger, first, first ? first[g] : g) = (uint32_t)g + 1;
    free(k->slots);
    *k = larger;
    return 0;
}

static int number(struct keys *k, size_t n, uint32_t *group, uint32_t *first, size_t *n_groups)
{
    size_t m = 0;
    int r = n < UINT32_MAX ? slots_new(k, 1024) : -EINVAL;
    if (r)
        return r;
    for (size_t i = 0; !r && i < n; i++) {
        uint32_t *slot = find(k, first, i);
        if (*slot) {
            group[i] = *slot - 1;
            continue;
        }
        first[m] = (uint32_t)i;
        group[i] = (uint32_t)m++;
        *slot = (uint32_t)m;
        if (2 * m > k->mask)
            r = grow(k, first, m);
    }
    free(k->slots);
    *n_groups = m;
    return r;
}

int columns_pairs(const uint32_t *a, const uint32_t *b, size_t n, uint32_t *group, uint32_t *first,
                  size_t *n_groups)
{
    return number(&(struct keys){.a = a, .b = b}, n, group, first, n_groups);
}

int columns_distinct(const uint64_t *value, size_t n, uint32_t *group, uint32_t *first,
                     size_t *n_groups)
{
    return number(&(struct keys){.wide = value}, n, group, first, n_groups);
}

int columns_shift(const uint32_t *value, size_t n, uint64_t by, uint32_t *shifted)
{
    for (size_t i = 0; i < n; i++) {
        if (value[i] + by > UINT32_MAX)
            return -EINVAL;
        shifted[i] = (uint32_t)(value[i] + by);
    }
    return 0;
}

int columns_paths(const uint32_t *parent, const uint32_t *label, const uint8_t *how,
                  const uint32_t *rather, size_t n, uint32_t *node, uint32_t *node_parent,
                  uint32_t *node_label, size_t *n_nodes)
{
    *n_nodes = 0;
    if (!n)
        return 0;
    struct keys k = {.a = node_parent, .b = node_label};
    int r = n < UINT32_MAX ? slots_new(&k, 1024) : -EINVAL;
    if (r)
        return r;
    uint8_t *asked = rather ? calloc(n, 1) : NULL;
    if (rather && !asked)
        r = -ENOMEM;
    node[0] = node_parent[0] = node_label[0] = 0;
    *find(&k, NULL, 0) = 1;
    size_t m = 1;
    for (size_t i = 1; !r && i < n; i++) {
        if (parent[i] >= i || (rather && rather[i] >= i)) {
            r = -EINVAL;
            break;
        }
        uint32_t above = node[parent[i]];
        node[i] = above;
        if ((how[i] & PATH_ABOVE) || ((how[i] & PATH_NOT_FIRST) && !above) ||
            ((how[i] & PATH_RUN) && node_label[above] == label[i]))
            continue;
        node_label[m] = label[i];
        uint32_t *slot = NULL;
        if (rather) {
            node_parent[m] = node[rather[i]];
            slot = find(&k, NULL, m);
        }
        if (!slot || !*slot || !asked[*slot - 1]) {
            node_parent[m] = above;
            slot = find(&k, NULL, m);
        }
        if (!*slot)
            *slot = (uint32_t)++m;
        node[i] = *slot - 1;
        if (asked && (how[i] & PATH_ASKED))
            asked[node[i]] = 1;
        if (2 * m > k.mask)
            r = grow(&k, NULL, m);
    }
    free(k.slots);
    free(asked);
    *n_nodes = m;
    return r;
}

int columns_descend(const uint32_t *parent, const uint8_t *input, size_t n, const uint8_t *step,
                    size_t n_states, uint8_t *state)
{
    for (size_t i = 0; i < n; i++) {
        if (i && parent[i] >= i)
            return -EINVAL;
        state[i] = i ? step[256 * state[parent[i]] + input[i]] : 0;
        if (state[i] >= n_states)
            return -EINVAL;
    }
    return 0;
}

int columns_take(const void *table, size_t size, size_t n_table, const uint32_t *index, size_t n,
                 void *taken)
{
    for (size_t i = 0; i < n; i++) {
        if (index[i] >= n_table)
            return -EINVAL;
        if (size == 1)
            ((uint8_t *)taken)[i] = ((const uint8_t *)table)[index[i]];
        else if (size == 4)
            ((uint32_t *)taken)[i] = ((const uint32_t *)table)[index[i]];
        else
            ((uint64_t *)taken)[i] = ((const uint64_t *)table)[index[i]];
    }
    return 0;
}

enum { DIGIT_BITS = 16, DIGITS = 1 << DIGIT_BITS };

/* One pass of a radix sort: `from` to `to`, by the digit of key[row] at `shift`.  0: all have the same one. */
static int order_by(const uint32_t *key, unsigned shift, const uint32_t *from, uint32_t *to,
                    size_t n, size_t *count)
{
    size_t sum = 0;
    memset(count, 0, DIGITS * sizeof *count);
    for (size_t i = 0; i < n; i++)
        count[key[i] >> shift & (DIGITS - 1)]++;
    if (count[key[0] >> shift & (DIGITS - 1)] == n)
        return 0;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t here = count[d];
        count[d] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++)
        to[count[key[from[i]] >> shift & (DIGITS - 1)]++] = from[i];
    return 1;
}

int columns_order(const uint32_t *high, const uint32_t *low, size_t n, uint32_t *row)
{
    size_t in_order = 0; /* rows */
    for (; in_order < n; in_order++) {
        size_t at = row[in_order] = (uint32_t)in_order;
        if (at && (high[at] < high[at - 1] || (high[at] == high[at - 1] && low[at] < low[at - 1])))
            break;
    }
    if (in_order == n)
        return 0;
    size_t *count = malloc(DIGITS * sizeof *count);
    uint32_t *other = malloc((n ? n : 1) * sizeof *other), *from = row, *to = other;
    if (!count || !other) {
        free(count);
        free(other);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        row[i] = (uint32_t)i;
    for (unsigned pass = 0; n && pass < 4; pass++) /* the least significant digit first */
        if (order_by(pass < 2 ? low : high, pass % 2 * DIGIT_BITS, from, to, n, count)) {
            uint32_t *swap = from;
            from = to;
            to = swap;
        }
    if (from != row)
        memcpy(row, from, n * sizeof *row);
    free(count);
    free(other);
    return 0;
}

int columns_mark(const uint32_t *index, size_t n, uint8_t *marked, size_t n_marked)
{
    memset(marked, 0, n_marked);
    for (size_t i = 0; i < n; i++) {
        if (index[i] >= n_marked)
            return -EINVAL;
        marked[index[i]] = 1;
    }
    return 0;
}

int columns_rows_from(const void *value, size_t size, size_t n, uint64_t least, uint32_t *row,
                      size_t *n_rows)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        row[found] = (uint32_t)i; /* without a branch: found <= i */
        if (size == 1)
            found += ((const uint8_t *)value)[i] >= least;
        else if (size == 4)
            found += ((const uint32_t *)value)[i] >= least;
        else
            found += ((const int64_t *)value)[i] >= (int64_t)least;
    }
    *n_rows = found;
    return 0;
}

int columns_nearest(const uint32_t *parent, const uint8_t *marked, size_t n, uint32_t *at)
{
    for (size_t i = 0; i < n; i++) {
        if (i && parent[i] >= i)
            return -EINVAL;
        at[i] = !i ? 0 : marked[i] ? (uint32_t)i : at[parent[i]];
    }
    return 0;
}

/* Is there a row above it, or the root? */
static int is_row(const uint32_t *parent, size_t n_rows, uint32_t row)
{
    return row < n_rows && parent[row] < row;
}

size_t columns_climb_room(const uint32_t *parent, size_t n_rows, const uint32_t *from, size_t n,
                          uint64_t most)
{
    size_t room = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = most;
        for (uint32_t row = from[i]; left && row && is_row(parent, n_rows, row); left--, room++)
            row = parent[row];
    }
    return room;
}

int columns_climb(const uint32_t *parent, const int64_t *value, size_t n_rows, const uint32_t *from,
                  size_t n, uint64_t most, int64_t *values, int64_t *end)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = most;
        for (uint32_t row = from[i]; left && row; left--, row = parent[row]) {
            if (!is_row(parent, n_rows, row))
                return -EINVAL;
            values[at++] = value[row];
        }
        end[i] = at;
    }
    return 0;
}

/* Children as lists: below[i] is a row's first child, beside[i] the next child of the same parent. */
struct children {
    uint32_t *below, *beside;
};

static void children_free(struct children *c)
{
    free(c->below);
    free(c->beside);
}

static int children_new(struct children *c, const uint32_t *parent, size_t n)
{
    *c = (struct children){.below = calloc(n, sizeof *c->below),
                           .beside = calloc(n, sizeof *c->beside)};
    if (!c->below || !c->beside) {
        children_free(c);
        return -ENOMEM;
    }
    for (size_t i = n; i-- > 1;) {
        if (parent[i] >= i) {
            children_free(c);
            return -EINVAL;
        }
        c->beside[i] = c->below[parent[i]];
        c->below[parent[i]] = (uint32_t)i;
    }
    return 0;
}

/* In depth-first order, with the number of marked rows of each label on the way from the root. */
int columns_outermost(const uint32_t *parent, const uint32_t *label, const uint8_t *marked,
                      size_t n, uint8_t *outer)
{
    if (!n)
        return 0;
    uint32_t n_labels = 0;
    for (size_t i = 0; i < n; i++)
        n_labels = label[i] > n_labels ? label[i] : n_labels;
    struct children c;
    uint32_t *active = calloc((size_t)n_labels + 1, sizeof *active);
    int r = active ? children_new(&c, parent, n) : -ENOMEM;
    if (r) {
        free(active);
        return r;
    }
    outer[0] = 1;
    for (uint32_t row = c.below[0]; row;) {
        outer[row] = !active[label[row]];
        active[label[row]] += marked[row] != 0;
        if (c.below[row]) {
            row = c.below[row];
            continue;
        }
        for (;; row = parent[row]) {
            active[label[row]] -= row && marked[row];
            if (!row || c.beside[row])
                break;
        }
        row = row ? c.beside[row] : 0;
    }
    children_free(&c);
    free(active);
    return 0;
}

int columns_inclusive(const uint32_t *parent, int64_t *value, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        if (parent[i] >= i)
            return -EINVAL;
        int64_t *up = &value[parent[i]];
        if (__builtin_add_overflow(*up, value[i], up))
            return -EOVERFLOW;
    }
    return 0;
}

int columns_at_least(const uint32_t *parent, int64_t *value, size_t n)
{
    int64_t *below = calloc(n ? n : 1, sizeof *below);
    int r = below ? 0 : -ENOMEM;
    for (size_t i = n; !r && i-- > 0;) {
        value[i] = value[i] < below[i] ? below[i] : value[i];
        if (i && parent[i] >= i)
            r = -EINVAL;
        else if (i && __builtin_add_overflow(below[parent[i]], value[i], &below[parent[i]]))
            r = -EOVERFLOW;
    }
    free(below);
    return r;
}

int columns_add_up(const uint32_t *group, const int64_t *value, const uint8_t *where, size_t n,
                   int64_t *sum, size_t n_groups)
{
    memset(sum, 0, n_groups * sizeof *sum);
    for (size_t i = 0; i < n; i++) {
        if (group[i] >= n_groups)
            return -EINVAL;
        if ((!where || where[i]) && __builtin_add_overflow(sum[group[i]], value[i], &sum[group[i]]))
            return -EOVERFLOW;
    }
    return 0;
}

/* The module that is there, or `usual`. */
static uint32_t module_at(int64_t address, uint32_t usual, const struct module_spans *s)
{
    size_t low = 0, high = s->n; /* the first span that begins after it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->begin[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low-- > 0 && address < s->end[low];)
        if (s->path[s->module[low]] == s->path[usual])
            return s->module[low];
    return usual;
}

int columns_relocate(const int64_t *address, const uint32_t *usual, size_t n,
                     const struct module_spans *spans, int64_t *moved)
{
    for (size_t i = 0; i < spans->n; i++)
        if (spans->module[i] >= spans->n_modules)
            return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (usual[i] >= spans->n_modules)
            return -EINVAL;
        int is_moved = usual[i] && address[i] != NO_NUMBER;
        int64_t by = is_moved ? spans->by[module_at(address[i], usual[i], spans)] : 0;
        if (__builtin_add_overflow(address[i], by, &moved[i]))
            return -EOVERFLOW;
    }
    return 0;
}

int columns_restack(const uint32_t *place, size_t n, const uint32_t *row, size_t n_rows,
                    uint32_t *moved)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = place[i] & SPOOL_STACK_MAX;
        if (stack >= n_rows)
            return -EINVAL;
        moved[i] = (place[i] & ~SPOOL_STACK_MAX) | row[stack];
    }
    return 0;
}
