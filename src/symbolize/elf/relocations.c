/* relocations.c - the words of an ELF file into which the loader writes addresses.
 *
 * `.rela.dyn` and its packed form `.relr.dyn`, `.rela.plt`.  Of x86-64's relocations those of whole
 * pointers in data (R_X86_64_RELATIVE, R_X86_64_64), and of the global offset table.
 *
 * The file is not trusted: tables may lie in one another, but no more relocations are read than
 * would fit into the file.  Nothing is allocated.
 *
 * Context: as symbolize.h.  Source: System V gABI, "Relocation"; x86-64 psABI, table 4.9.
 *
 * Reading SHT_RELA and SHT_RELR.
 */
#include "elf_reader.h"

#include <string.h>

#ifndef SHT_RELR /* glibc < 2.36 */
#define SHT_RELR 19
#endif

#define WORD sizeof(uint64_t)
#define BITMAP_WORDS 63 /* that one entry of SHT_RELR stands for */

struct reading {
    int (*each)(void *context, const struct relocation *r);
    void *context;
    size_t budget; /* 8-byte words of relocations, and relocated by packed ones */
};

/* 0 if the file cannot have that many any more. */
static int spend(struct reading *r, size_t words)
{
    if (r->budget < words)
        return 0;
    r->budget -= words;
    return 1;
}

/* Returns 0 if it is none of those that are reported. */
static int make_relocation(const Elf64_Rela *rela, struct relocation *out)
{
    uint32_t symbol = (uint32_t)ELF64_R_SYM(rela->r_info);

    *out = (struct relocation){.place = rela->r_offset, .addend = (uint64_t)rela->r_addend};
    switch (ELF64_R_TYPE(rela->r_info)) {
    case R_X86_64_RELATIVE:
        return 1;
    case R_X86_64_IRELATIVE:
        out->kind = RELOCATION_CHOSEN;
        return 1;
    case R_X86_64_JUMP_SLOT:
    case R_X86_64_GLOB_DAT:
        out->kind = RELOCATION_SLOT;
        break;
    case R_X86_64_64:
        break;
    default:
        return 0;
    }
    out->symbol = symbol;
    return symbol != 0;
}

static int read_rela(struct reading *r, const char *bytes, size_t size)
{
    int error = 0;

    for (Elf64_Rela rela; !error && size >= sizeof(rela) && spend(r, sizeof(rela) / WORD);
         bytes += sizeof(rela), size -= sizeof(rela)) {
        struct relocation found;

        memcpy(&rela, bytes, sizeof(rela));
        if (make_relocation(&rela, &found))
            error = r->each(r->context, &found);
    }
    return error;
}

static int add_packed(struct reading *r, uint64_t place)
{
    struct relocation found = {.place = place, .packed = 1};

    return spend(r, 1) ? r->each(r->context, &found) : 0;
}

/* An even entry is a place; an odd one's upper 63 bits stand for the words that follow the last. */
static int read_relr(struct reading *r, const char *bytes, size_t size)
{
    uint64_t next = 0, entry;
    int error = 0;

    for (; !error && size >= WORD && spend(r, 1); bytes += WORD, size -= WORD) {
        memcpy(&entry, bytes, WORD);
        if (entry % 2 == 0) {
            error = add_packed(r, entry);
            next = entry + WORD;
            continue;
        }
        for (uint64_t bits = entry >> 1, place = next; bits && !error; bits >>= 1, place += WORD)
            if (bits & 1)
                error = add_packed(r, place);
        next += BITMAP_WORDS * WORD;
    }
    return error;
}

int relocations_read(const struct elf_image *image, size_t symbols,
                     int (*each)(void *context, const struct relocation *r), void *context)
{
    struct reading r = {each, context, image->size / WORD};
    int error = 0;

    for (size_t i = 1; !error && i < image->n_sections; i++) {
        Elf64_Shdr header;
        const char *bytes;
        size_t size;

        if (!elf_image_section(image, i, &header) || !(header.sh_flags & SHF_ALLOC) ||
            (header.sh_type != SHT_RELA && header.sh_type != SHT_RELR))
            continue;
        size = elf_image_bytes(image, i, &bytes);
        if (header.sh_type == SHT_RELR)
            error = read_relr(&r, bytes, size);
        else if (header.sh_link == symbols)
            error = read_rela(&r, bytes, size);
    }
    return error;
}
