/* dwarf_scopes.h - the functions and inlined calls of one unit that contain wanted addresses.
 *
 * Context: as symbolize.h; private to dwarf_lines.c.
 */
#ifndef PYH_DWARF_SCOPES_H
#define PYH_DWARF_SCOPES_H

#include "dwarf_lines.h"

#include <elfutils/libdw.h>

/* The linker zeroes the addresses of functions that it dropped (ld.bfd writes 1 into range lists).
 * No code lies there: a file begins with its headers. */
#define RANGE_DROPPED 1

struct scope {                       /* a function with code of its own, or an inlined one */
    struct inlined_call call;        /* of an inlined one; elsewhere all zero */
    struct source_function function; /* the concrete one that contains it, or itself */
    int inlined;
};

struct scope_chunk;

struct target { /* a wanted address */
    uint64_t address;
    struct source_position *out;
    Dwarf_Off unit;            /* offset of the unit's DIE; 0: none claimed it */
    uint64_t claim_width;      /* bytes of the range by which it was claimed */
    const struct scope *scope; /* the innermost; NULL: none */
};

/* The first target at or above an address, of n that are sorted by address; n if there is none. */
size_t target_at_or_above(const struct target *targets, size_t n, uint64_t address);

/* Sets the targets' scopes; they are sorted and in this unit.  What they point to is added to
 * *scopes (NULL at first), for scopes_free().  Returns 0 or -ENOMEM. */
int scopes_find(struct scope_chunk **scopes, Dwarf *dwarf, Dwarf_Die *unit, struct target *targets,
                size_t n);
void scopes_free(struct scope_chunk *scopes);

#endif
