/* plt_stubs.h - names for x86-64's stubs of the procedure linkage table: `memcpy@plt`.
 *
 * A call of another file's function goes to a stub, which jumps to where its slot of the global offset
 * table points; the relocation of that slot says whose address the loader writes there.  Stubs lie
 * in `.plt` and in what linkers put beside it (`.plt.sec`, `.plt.got`, `.iplt`), all of one size in a
 * section, and have no symbols.  A stub for a function that is chosen when the file is loaded
 * (STT_GNU_IFUNC) has, if that is not exported, no symbol in its relocation but the address of the
 * function that chooses.
 *
 * The file is not trusted: memory is at most four times its size, the work n log n.
 *
 * Context: as symbolize.h.  Source: x86-64 psABI, 5.2 and table 4.9; what GNU ld, gold, lld and
 * mold write.
 */
#ifndef PYH_PLT_STUBS_H
#define PYH_PLT_STUBS_H

#include "elf_image.h"

struct plt_stubs;

struct plt_stub {
    uint64_t start, size;
    const char *name; /* not NUL-terminated, any bytes, in the image; NULL: see `resolver` */
    size_t name_length;
    uint64_t resolver; /* where the function begins that chooses */
};

/* 0 or -ENOMEM.  The image must outlive it. */
int plt_stubs_new(struct plt_stubs **out, const struct elf_image *image);
void plt_stubs_free(struct plt_stubs *p);

/* 1 and *out, or 0 if the address is in no stub, or in one that nothing names.  The first that is
 * in one costs reading the relocations; without memory for them there are fewer names.  `p` may be
 * NULL. */
int plt_stubs_find(struct plt_stubs *p, uint64_t address, struct plt_stub *out);

#endif
