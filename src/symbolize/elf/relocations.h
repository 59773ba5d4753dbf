/* relocations.h - the words of an ELF file into which the loader writes addresses.
 *
 * `.rela.dyn` and its packed form `.relr.dyn`, `.rela.plt`.  Of x86-64's relocations those of whole
 * pointers in data (R_X86_64_RELATIVE, R_X86_64_64), and of the global offset table.
 *
 * The file is not trusted: tables may lie in one another, but no more relocations are read than
 * would fit into the file.  Nothing is allocated.
 *
 * Context: as symbolize.h.  Source: System V gABI, "Relocation"; x86-64 psABI, table 4.9.
 */
#ifndef PYH_RELOCATIONS_H
#define PYH_RELOCATIONS_H

#include "elf_image.h"

enum relocation_kind {
    RELOCATION_POINTER,
    RELOCATION_SLOT,   /* the symbol's address: R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT */
    RELOCATION_CHOSEN, /* what the function at `addend` returns: R_X86_64_IRELATIVE */
};

struct relocation {
    enum relocation_kind kind;
    uint64_t place;  /* virtual address of the word, anywhere */
    uint64_t addend; /* what is added to the symbol's or the file's address; 0 if `packed` */
    uint32_t symbol; /* index in the symbol table, which it may not have; 0: the file's address */
    int packed;      /* the addend is what stands at `place` */
};

/* Calls `each` for every one that refers to the symbol table in section `symbols`, or to none; ends
 * at once with what it returns if that is not 0. */
int relocations_read(const struct elf_image *image, size_t symbols,
                     int (*each)(void *context, const struct relocation *r), void *context);

#endif
