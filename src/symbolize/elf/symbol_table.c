/* symbol_table.c - sorted function symbols: what covers an address (rules: symbolize.h).
 *
 * Filled once, indexed once, then read-only.  Knows nothing of ELF files: whoever adds an entry has
 * checked that start + size does not overflow.  Names stay where they are, in the string tables
 * that symbol_table_strings() was given, and are read only for aliases and for hits.
 *
 * Context: as symbolize.h.  Functions return 0 or -errno.
 *
 * Sorting symbols and answering "what covers this address".
 *
 * Symbols overlap (aliases, labels inside functions), so the nearest start below an address need
 * not cover it.  Indexing therefore flattens them into disjoint ranges, each with its one winner:
 *
 *     symbols   |------- A -------------|      |-- C --|
 *                     |-- B --|
 *     ranges    A     B       A         none   C       none
 *
 * and a lookup is one binary search, whatever the input.  The sweep keeps the symbols that are
 * open on a stack: pushed in order of start, so the top is the innermost; one that ended below
 * the top is dropped when the top ends.  Every symbol is pushed and popped at most once.
 *
 * Half a million symbols (libtorch_cpu) are why the sort is a radix sort and why names are not
 * touched but for aliases: the string table is large, and each first touch is a page fault.
 *
 * Owns its arrays, no strings.  Never trusts a name to be terminated.
 */
#include "elf_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_SYMBOL UINT32_MAX
#define RADIX_BITS 11
#define RADIX_BUCKETS (1u << RADIX_BITS)
#define RADIX_PASSES 6           /* 6 * 11 >= 64 bits */
#define INSERTION_SORT_MAX 16    /* longer runs of aliases go to qsort */
#define COMPARED_NAME_LENGTH 256 /* bounds the work on hostile names; ties go to the offset */
#define NAME_LENGTH_MAX (1u << 20)

struct symbol_table {
    struct symbol_entry *entries;
    size_t n, capacity;
    const char *strings[N_SOURCES];
    size_t strings_length[N_SOURCES];
    uint64_t *range_start;  /* ascending; range i ends where i + 1 starts, the last is NO_SYMBOL */
    uint32_t *range_symbol; /* index into entries */
    size_t n_ranges;
};

int symbol_table_new(struct symbol_table **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : -ENOMEM;
}

void symbol_table_free(struct symbol_table *t)
{
    if (!t)
        return;
    free(t->entries);
    free(t->range_start);
    free(t->range_symbol);
    free(t);
}

void symbol_table_strings(struct symbol_table *t, enum symbol_source source, const char *strings,
                          size_t length)
{
    t->strings[source] = strings;
    t->strings_length[source] = length;
}

int symbol_table_reserve(struct symbol_table *t, size_t n)
{
    struct symbol_entry *entries;

    if (n >= NO_SYMBOL - t->n)
        return -EFBIG;
    entries = reallocarray(t->entries, t->n + n + 1, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    t->entries = entries;
    t->capacity = t->n + n;
    return 0;
}

void symbol_table_add(struct symbol_table *t, struct symbol_entry entry)
{
    if (t->n < t->capacity)
        t->entries[t->n++] = entry;
}

/* The name's bytes, at most `limit`, up to its "@VERSION" or "@@VERSION"; any offset is safe. */
static const char *entry_name(const struct symbol_table *t, const struct symbol_entry *e,
                              size_t limit, size_t *length)
{
    size_t end = t->strings_length[e->source];
    const char *name, *version;

    *length = 0;
    if (e->name >= end)
        return "";
    name = t->strings[e->source] + e->name;
    *length = strnlen(name, end - e->name < limit ? end - e->name : limit);
    version = *length ? memchr(name + 1, '@', *length - 1) : NULL;
    if (version)
        *length = (size_t)(version - name);
    return name;
}

/* How far a name is from what its author calls it: `open` before `_open` before `__open`.  The
 * underscore of C++'s "_Z" is not the author's. */
static int count_underscores(const char *name, size_t length)
{
    int n = 0;

    while ((size_t)n < length && name[n] == '_')
        n++;
    return n == 1 && length > 1 && name[1] == 'Z' ? 0 : n;
}

/* Aliases at one start: negative if `a` is to be preferred.  Total. */
static int compare(const struct symbol_entry *a, const struct symbol_entry *b,
                   const struct symbol_table *t)
{
    const char *name_a, *name_b;
    size_t length_a, length_b;
    int c;

    if (a->unsized != b->unsized)
        return a->unsized - b->unsized;
    if (a->source != b->source)
        return a->source - b->source;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    if (a->type != b->type)
        return a->type - b->type;
    name_a = entry_name(t, a, COMPARED_NAME_LENGTH, &length_a);
    name_b = entry_name(t, b, COMPARED_NAME_LENGTH, &length_b);
    if (!length_a != !length_b)
        return length_a ? -1 : 1;
    c = count_underscores(name_a, length_a) - count_underscores(name_b, length_b);
    if (c)
        return c;
    if (a->binding != b->binding)
        return a->binding - b->binding;
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    c = memcmp(name_a, name_b, length_a);
    if (c)
        return c;
    return a->name < b->name ? -1 : a->name > b->name;
}

static int compare_for_qsort(const void *a, const void *b, void *table)
{
    return compare(a, b, table);
}

static void sort_aliases(const struct symbol_table *t, struct symbol_entry *e, size_t n)
{
    if (n > INSERTION_SORT_MAX) {
        qsort_r(e, n, sizeof(*e), compare_for_qsort, (void *)t);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct symbol_entry moved = e[i];
        size_t j = i;

        for (; j > 0 && compare(&moved, &e[j - 1], t) < 0; j--)
            e[j] = e[j - 1];
        e[j] = moved;
    }
}

static size_t digit(uint64_t key, int pass)
{
    return key >> (pass * RADIX_BITS) & (RADIX_BUCKETS - 1);
}

/* Orders the entries by start: least significant digit first, digits that all share skipped. */
static int sort_by_start(struct symbol_table *t)
{
    uint32_t (*count)[RADIX_BUCKETS] = calloc(RADIX_PASSES, sizeof(*count));
    struct symbol_entry *to = reallocarray(NULL, t->n, sizeof(*to)), *from = t->entries;

    if (!count || !to) {
        free(count);
        free(to);
        return -ENOMEM;
    }
    for (size_t i = 0; i < t->n; i++)
        for (int pass = 0; pass < RADIX_PASSES; pass++)
            count[pass][digit(from[i].start, pass)]++;
    for (int pass = 0; pass < RADIX_PASSES; pass++) {
        struct symbol_entry *swap = from;
        uint32_t sum = 0;

        if (count[pass][digit(from[0].start, pass)] == t->n)
            continue;
        for (size_t d = 0; d < RADIX_BUCKETS; d++) {
            uint32_t here = count[pass][d];

            count[pass][d] = sum;
            sum += here;
        }
        for (size_t i = 0; i < t->n; i++)
            to[count[pass][digit(from[i].start, pass)]++] = from[i];
        from = to;
        to = swap;
    }
    free(count);
    free(to);
    t->entries = from;
    t->capacity = t->n;
    return 0;
}

struct sweep {
    struct symbol_table *t;
    uint32_t *open; /* indices into entries: started, and not known to have ended */
    size_t depth;
};

static uint64_t entry_end(const struct sweep *s, size_t depth)
{
    const struct symbol_entry *e = &s->t->entries[s->open[depth - 1]];

    return e->start + e->size;
}

/* From `start` on, the top of the stack (or nothing) names addresses. */
static void begin_range(struct sweep *s, uint64_t start)
{
    struct symbol_table *t = s->t;

    if (t->n_ranges == 0 || t->range_start[t->n_ranges - 1] != start)
        t->n_ranges++;
    t->range_start[t->n_ranges - 1] = start;
    t->range_symbol[t->n_ranges - 1] = s->depth ? s->open[s->depth - 1] : NO_SYMBOL;
}

static void close_until(struct sweep *s, uint64_t start)
{
    while (s->depth && entry_end(s, s->depth) <= start) {
        uint64_t end = entry_end(s, s->depth);

        while (s->depth && entry_end(s, s->depth) <= end)
            s->depth--;
        begin_range(s, end);
    }
}

/* The entries [first, last) start at one address; `next` is the next symbol's start. */
static void open_aliases(struct sweep *s, size_t first, size_t last, uint64_t next)
{
    struct symbol_entry *best = &s->t->entries[first];

    if (best->unsized) { /* then all are, and the best one names what there is */
        if (s->depth)
            return;
        if (best->size > next - best->start)
            best->size = next - best->start;
        last = first + 1;
    }
    for (size_t i = last; i-- > first;)
        if (s->t->entries[i].unsized == best->unsized)
            s->open[s->depth++] = (uint32_t)i;
    begin_range(s, best->start);
}

static int flatten(struct symbol_table *t)
{
    struct sweep s = {t, reallocarray(NULL, t->n, sizeof(*s.open)), 0};

    t->range_start = reallocarray(NULL, t->n, 2 * sizeof(*t->range_start));
    t->range_symbol = reallocarray(NULL, t->n, 2 * sizeof(*t->range_symbol));
    if (!s.open || !t->range_start || !t->range_symbol) {
        free(s.open);
        return -ENOMEM;
    }
    for (size_t first = 0, last; first < t->n; first = last) {
        uint64_t start = t->entries[first].start;

        for (last = first + 1; last < t->n && t->entries[last].start == start; last++)
            ;
        sort_aliases(t, &t->entries[first], last - first);
        close_until(&s, start);
        open_aliases(&s, first, last, last < t->n ? t->entries[last].start : UINT64_MAX);
    }
    close_until(&s, UINT64_MAX);
    free(s.open);
    return 0;
}

int symbol_table_index(struct symbol_table *t)
{
    int r;

    if (t->n == 0)
        return 0;
    r = sort_by_start(t);
    return r ? r : flatten(t);
}

static int describe(const struct symbol_table *t, const struct symbol_entry *e, struct symbol *out)
{
    *out = (struct symbol){.start = e->start, .size = e->size, .source = e->source};
    out->name = entry_name(t, e, NAME_LENGTH_MAX, &out->name_length);
    return out->name_length > 0;
}

int symbol_table_find(const struct symbol_table *t, uint64_t address, struct symbol *out)
{
    size_t low = 0, high = t->n_ranges; /* the last range that starts at or before the address */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->range_start[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || t->range_symbol[low - 1] == NO_SYMBOL)
        return 0;
    return describe(t, &t->entries[t->range_symbol[low - 1]], out);
}

int symbol_table_find_chosen(const struct symbol_table *t, uint64_t start, struct symbol *out)
{
    size_t low = 0, high = t->n; /* the first entry that starts there or after */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->entries[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < t->n && t->entries[i].start == start; i++)
        if (t->entries[i].type == ENTRY_IFUNC)
            return describe(t, &t->entries[i], out);
    return low < t->n && t->entries[low].start == start && describe(t, &t->entries[low], out);
}
