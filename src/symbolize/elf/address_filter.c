/* address_filter.c - which addresses of a file are asked for: whether a symbol names any of them.
 *
 * A library has half a million symbols, and a profile some hundred addresses in it: most symbols are found to be of no
 * use by a bit or two.
 *
 * Context: as symbolize.h.
 *
 * A bit for each stretch of memory that has an address, and a binary search where it is set.
 */
#include "elf_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64
#define N_STRETCHES ((size_t)1 << 16)
#define TRIED_MAX 16 /* stretches; a symbol that has more goes to the search */

struct asked {
    uint64_t *addresses; /* ascending */
    size_t n;
    unsigned shift; /* a stretch has 1 << shift bytes; the first begins at addresses[0] */
    uint64_t bits[N_STRETCHES / WORD_BITS];
};

static int compare(const void *one, const void *other)
{
    const uint64_t *a = one, *b = other;

    return *a < *b ? -1 : *a > *b;
}

static size_t stretch(const struct asked *a, uint64_t address)
{
    return (size_t)((address - a->addresses[0]) >> a->shift);
}

int asked_new(struct asked **out, const uint64_t *addresses, size_t n)
{
    struct asked *a = calloc(1, sizeof(*a));

    if (a)
        a->addresses = reallocarray(NULL, n + 1, sizeof(*addresses));
    if (!a || !a->addresses) {
        free(a);
        return -ENOMEM;
    }
    a->n = n;
    if (n) {
        memcpy(a->addresses, addresses, n * sizeof(*addresses));
        qsort(a->addresses, n, sizeof(*addresses), compare);
        while (stretch(a, a->addresses[n - 1]) >= N_STRETCHES)
            a->shift++;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = stretch(a, a->addresses[i]);

        a->bits[at / WORD_BITS] |= (uint64_t)1 << at % WORD_BITS;
    }
    *out = a;
    return 0;
}

void asked_free(struct asked *a)
{
    if (!a)
        return;
    free(a->addresses);
    free(a);
}

/* Is the first one at or after `start` before `end`? */
static int search(const struct asked *a, uint64_t start, uint64_t end)
{
    size_t low = 0, high = a->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->addresses[middle] < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < a->n && a->addresses[low] < end;
}

int asked_within(const struct asked *a, uint64_t start, uint64_t size)
{
    uint64_t end = start + size;
    size_t first, last;

    if (a->n == 0 || size == 0 || end <= a->addresses[0] || start > a->addresses[a->n - 1])
        return 0;
    first = start > a->addresses[0] ? stretch(a, start) : 0;
    last = stretch(a, end - 1 < a->addresses[a->n - 1] ? end - 1 : a->addresses[a->n - 1]);
    if (last - first < TRIED_MAX) {
        while (first <= last && !(a->bits[first / WORD_BITS] >> first % WORD_BITS & 1))
            first++;
        if (first > last)
            return 0;
    }
    return search(a, start, end);
}
