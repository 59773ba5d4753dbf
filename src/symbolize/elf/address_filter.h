/* address_filter.h - which addresses of a file are asked for: whether a symbol names any of them.
 *
 * A library has half a million symbols, and a profile some hundred addresses in it: most symbols are told to be of no
 * use by a bit or two.
 *
 * Context: as symbolize.h.
 */
#ifndef PYH_ADDRESS_FILTER_H
#define PYH_ADDRESS_FILTER_H

#include <stddef.h>
#include <stdint.h>

struct asked;

/* The addresses are copied, in any order.  0 or -ENOMEM. */
int asked_new(struct asked **out, const uint64_t *addresses, size_t n);
void asked_free(struct asked *a);

/* Is one of them in [start, start + size), which does not overflow? */
int asked_within(const struct asked *a, uint64_t start, uint64_t size);

#endif
