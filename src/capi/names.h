/* names.h - a number for each name, for the process's life.
 *
 * Nothing is ever removed, so who asks needs no lock: a fork may come at any moment.
 *
 * Context: ordinary threads, several at once.
 */
#ifndef PYH_CAPI_NAMES_H
#define PYH_CAPI_NAMES_H

#include <stdatomic.h>
#include <stdint.h>

/* A table for numbers 1 to max - 1; `place`: by hash, 2 * max of them, max being a power of two. */
struct names {
    uint32_t max;
    const char *_Atomic *text; /* by number */
    _Atomic uint32_t *place;
    _Atomic uint32_t n;
};

#define NAMES(table, size)                                                                         \
    static const char *_Atomic table##_text[size];                                                 \
    static _Atomic uint32_t table##_place[2 * (size)];                                             \
    static struct names table = {(size), table##_text, table##_place, 1}

/* Returns the name's number; 0: there are no more. */
uint32_t names_number(struct names *names, const char *name);

#endif
