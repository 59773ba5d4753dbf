/* elf_image.h - one ELF file in memory, its sections and its build-id.
 *
 * The file is mapped by us and given to libelf as memory, so that no descriptor stays open and an
 * ELF file inside another takes the same way.  It is mapped, not trusted: that sections lie inside
 * it is checked here, whether their contents make sense is for who reads them.  Only a file that
 * shrinks while it is mapped cannot be survived (SIGBUS).
 *
 * Context: as symbolize.h.  Functions return 0 or -errno unless otherwise stated.
 * Source: elf(5); System V gABI, chapters 4 and 5.
 */
#ifndef PYH_ELF_IMAGE_H
#define PYH_ELF_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 64                         /* bytes; SHA-1 has 20 */
#define ELF_BUILD_ID_HEX (2 * ELF_BUILD_ID_MAX + 1) /* as a string */

struct elf_section {
    uint64_t start, end; /* virtual addresses; empty: not in memory */
    int executable;
};

struct elf_image { /* all zero: not open, may be closed */
    char *bytes;
    size_t size;
    int mapped; /* `bytes` is a mapping; otherwise it is malloc's */
    struct Elf *elf;
    const char *section_names;
    size_t section_names_size;
    struct elf_section *sections;
    size_t n_sections;
};

/* Returns -ENOEXEC for what is no ELF64 little-endian program or library, -EBADMSG where its headers do not hold.
 * Whatever it returns, elf_image_close() is due. */
int elf_image_open(struct elf_image *image, const char *path);
/* Takes a relocatable file, too, as dwz's alternate files are. */
int elf_image_open_any(struct elf_image *image, const char *path);
/* As elf_image_open() for bytes that malloc gave, which the image owns from now on. */
int elf_image_open_memory(struct elf_image *image, char *bytes, size_t size);
void elf_image_close(struct elf_image *image);

/* Copies the header, which may lie unaligned in the file.  Returns 0 if there is no such section (0 is none). */
int elf_image_section(const struct elf_image *image, size_t index, Elf64_Shdr *header);
/* Returns the first section of a type, and of a name unless that is NULL; 0 if there is none. */
size_t elf_image_find(const struct elf_image *image, Elf64_Word type, const char *name);
/* Finds a section's bytes as they lie in the file, unaligned perhaps, and returns how many; 0 and NULL if it has none
 * there. */
size_t elf_image_bytes(const struct elf_image *image, size_t index, const char **bytes);

/* Returns how many bytes all compressed sections claim to hold, `.zdebug_*` ones included. */
uint64_t elf_image_unpacked_size(const struct elf_image *image);

/* Lower-case hex; the empty string if the file carries none. */
void elf_image_build_id(const struct elf_image *image, char hex[ELF_BUILD_ID_HEX]);
/* `n` bytes as lower-case hex; n is not above ELF_BUILD_ID_MAX. */
void elf_build_id_hex(const void *id, size_t n, char hex[ELF_BUILD_ID_HEX]);

#endif
