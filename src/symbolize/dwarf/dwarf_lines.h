/* dwarf_lines.h - source lines and inlined functions of addresses, from DWARF.
 *
 * Reads DWARF 2 to 5, of the file itself or of its split debug file (debug_file.h), compressed or
 * not, with a dwz alternate file where there is one.  An address is the file's own virtual address
 * (what dlpi_addr is subtracted from).  For a caller's frame give the return address - 1: the
 * return address itself may be the next line's, or the next function's.
 *
 * Many addresses are looked up at once: they are shared out over the compilation units, and each
 * unit that was hit is walked once, only where its ranges hold addresses (dwarf_getscopes per
 * address walks it each time).  So ask for all addresses of a file in one call.
 *
 * The file is mapped, not trusted, as far as that is in our hands: sections and their headers are
 * checked, each unit's walk is bounded by the unit's size.  Decoding itself is libdw's.
 *
 * Not read: split DWARF (`.dwo`, `.dwp`), of which lines are found, but no functions; DWARF 5's
 * `.debug_sup`.
 *
 * Memory: compressed sections may hold 64 times the file's size.  libdw keeps the decoded line table of each unit that was hit, some 50 bytes a row, until
 * dwarf_lines_free().
 *
 * Context: as symbolize.h; one thread at a time per object.
 * Source: DWARF 5, 2.17 (ranges), 3.1 (units), 3.3.8 (inlining), 6.1.2 (aranges), 6.2 (lines).
 */
#ifndef PYH_DWARF_LINES_H
#define PYH_DWARF_LINES_H

#include <stddef.h>
#include <stdint.h>

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
 * what it does not tell is not known. */
int dwarf_lines_find(struct dwarf_lines *d, const uint64_t *addresses, size_t n,
                     struct source_position *out);

#endif
