/* elf_reader.h - what is read of an ELF file.
 */
#ifndef PYH_ELF_READER_H
#define PYH_ELF_READER_H

#include <stddef.h>
#include <stdint.h>

#include "elf_image.h"
#include "symbolize.h"

/* --- address_filter.c ---------------------------------------------------------------------------- */

struct asked;

/* Copies the addresses, in any order.  Returns 0 or -ENOMEM. */
int asked_new(struct asked **out, const uint64_t *addresses, size_t n);
void asked_free(struct asked *a);

/* Returns whether one of them is in [start, start + size), which does not overflow. */
int asked_within(const struct asked *a, uint64_t start, uint64_t size);

/* --- debugdata.c --------------------------------------------------------------------------------- */

/* Returns 0 and *out for the caller to free(); -ENOMEM; -EFBIG: over the bound; -EBADMSG: damaged. */
int debugdata_unpack(const uint8_t *packed, size_t packed_size, uint8_t **out, size_t *out_size);

/* --- eh_frame_hdr.c ------------------------------------------------------------------------------ */

struct fde_index { /* all zero: an empty index */
    const uint8_t *entries;
    size_t n;
    uint64_t base;
    const uint8_t *frames; /* `.eh_frame` */
    size_t frames_size;
    uint64_t frames_base;
};

/* `address` is the section's virtual address.  Leaves the index empty if the section is not laid
 * out as ld and lld do it. */
void fde_index_read(struct fde_index *f, const void *section, size_t size, uint64_t address);

/* Returns the smallest function start above `address`, UINT64_MAX if there is none. */
uint64_t fde_index_next(const struct fde_index *f, uint64_t address);

/* Adds `.eh_frame`, which fde_index_size() reads. */
void fde_index_frames(struct fde_index *f, const void *section, size_t size, uint64_t address);

/* Returns the size in bytes of the function that starts at `start`, cut where the next one starts; 0 if
 * none starts there, or its FDE does not hold or is not encoded as compilers do it. */
uint64_t fde_index_size(const struct fde_index *f, uint64_t start);

/* --- plt_stubs.c --------------------------------------------------------------------------------- */

struct plt_stubs;

struct plt_stub {
    uint64_t start, size;
    const char *name; /* not NUL-terminated, any bytes, in the image; NULL: see `resolver` */
    size_t name_length;
    uint64_t resolver; /* where the function begins that chooses */
};

/* Returns 0 or -ENOMEM.  The image must outlive it. */
int plt_stubs_new(struct plt_stubs **out, const struct elf_image *image);
void plt_stubs_free(struct plt_stubs *p);

/* Returns 1 and *out, or 0 if the address is in no stub, or in one that nothing names.  The first that is
 * in one costs reading the relocations; without memory for them there are fewer names.  `p` may be
 * NULL. */
int plt_stubs_find(struct plt_stubs *p, uint64_t address, struct plt_stub *out);

/* --- relocations.c ------------------------------------------------------------------------------- */

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

/* --- symbol_table.c ------------------------------------------------------------------------------ */

enum entry_type {
    ENTRY_FUNCTION,
    ENTRY_IFUNC,
    ENTRY_OTHER
}; /* an IFUNC's address is its resolver's */

struct symbol_entry { /* the four bytes rank aliases, smaller is better */
    uint64_t start;
    uint64_t size;  /* if `unsized`: the most it may name */
    uint32_t name;  /* offset into its source's strings */
    uint8_t source; /* enum symbol_source */
    uint8_t unsized;
    uint8_t type;    /* enum entry_type */
    uint8_t binding; /* global, weak, local */
};

struct symbol_table;

int symbol_table_new(struct symbol_table **out);
void symbol_table_free(struct symbol_table *t);

/* `strings` must outlive the table. */
void symbol_table_strings(struct symbol_table *t, enum symbol_source source, const char *strings,
                          size_t length);
/* Makes room for n more entries, which symbol_table_add() then takes without failing. */
int symbol_table_reserve(struct symbol_table *t, size_t n);
void symbol_table_add(struct symbol_table *t, struct symbol_entry entry);
int symbol_table_index(struct symbol_table *t);

int symbol_table_find(const struct symbol_table *t, uint64_t address, struct symbol *out);
/* Finds what the function is called that the resolver at `start` chooses: of the symbols that start there the
 * best of an IFUNC, else the best one. */
int symbol_table_find_chosen(const struct symbol_table *t, uint64_t start, struct symbol *out);

#endif
