/* dwarf_lines.h - lines and inlined functions of native code, by DWARF.
 */
#ifndef PYH_DWARF_LINES_H
#define PYH_DWARF_LINES_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

/* --- dwarf_lines.c ------------------------------------------------------------------------------- */

/* Strings are as the file spells them (any bytes; C++ names mangled); they and the chains live as
 * long as the struct dwarf_lines.  Lines count from 1; 0 is "not known", as NULL is for strings. */
struct source_function {
    const char *name; /* linkage name, else plain name */
    const char *file; /* where it is declared: of a C++ method perhaps in its class */
    unsigned line;
};

struct inlined_call {
    struct source_function function; /* that was inlined */
    const char *call_file;
    unsigned call_line;                /* where it was called from */
    const struct inlined_call *caller; /* what it was inlined into, if that was inlined itself */
};

struct source_position {
    /* What `file` and the chain's files are relative to, unless they are absolute or begin with it
     * (which may be relative itself: -ffile-prefix-map). */
    const char *directory;
    const char *file;
    unsigned line;
    const struct inlined_call *inlined; /* innermost first; NULL: none */
    struct source_function function;    /* the concrete one, which contains them all; functions that
                                           gcc merged with equal ones may have an ELF symbol only */
    int found;                          /* 0: nothing is known of this address */
};

struct dwarf_lines;

/* Opens `path`, or the debug file that was split from it.  `build_id` (hex, or NULL) is what the
 * file must carry; `roots` as in debug_file.h; `limit_bytes`: how large `.debug_info` may be, and all
 * that is compressed once it is unpacked; 0: any size.  Returns 0; -ENODATA: no DWARF here nor in a
 * split debug file; -EFBIG: over the limit; or what elf_symbols_new() returns. */
int dwarf_lines_new(struct dwarf_lines **out, const char *path, const char *build_id,
                    const char *roots, uint64_t limit_bytes);
void dwarf_lines_free(struct dwarf_lines *d);

/* Fills out[i] for addresses[i], in any order.  Returns 0 or -ENOMEM.  Damaged DWARF is no error:
 * what it does not have is not known. */
int dwarf_lines_find(struct dwarf_lines *d, const uint64_t *addresses, size_t n,
                     struct source_position *out);

/* --- dwarf_scopes.c ------------------------------------------------------------------------------ */

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

/* Returns the first target at or above an address, of n that are sorted by address; n if there is none. */
size_t target_at_or_above(const struct target *targets, size_t n, uint64_t address);

/* Sets the targets' scopes; they are sorted and in this unit.  What they point to is added to
 * *scopes (NULL at first), for scopes_free().  Returns 0 or -ENOMEM. */
int scopes_find(struct scope_chunk **scopes, Dwarf *dwarf, Dwarf_Die *unit, struct target *targets,
                size_t n);
void scopes_free(struct scope_chunk *scopes);

#endif
