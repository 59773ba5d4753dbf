/* elf_mutator.c - half of all changes go where they matter: a number in a section's header, or in a section's contents,
 * near their begin more often than not.  Of random bytes of a file few say how much there is of anything. */
#include "input.h"

#include <elf.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t max_size); /* libFuzzer's own */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed);

static uint64_t make_number(uint64_t *random)
{
    uint64_t any = input_random(random);

    switch (any % 4) {
    case 0:
        return any >> 8 & 7;
    case 1:
        return UINT64_MAX - (any >> 8 & 7);
    case 2:
        return (uint64_t)1 << (any >> 8 & 63);
    default:
        return any >> (any >> 8 & 63);
    }
}

/* A whole number of 4 or 8 bytes within [start, start + length) of the file; 0 if there is none. */
static int put_number(uint8_t *bytes, size_t size, uint64_t start, uint64_t length,
                      uint64_t *random)
{
    size_t width = input_random(random) % 2 ? 4 : 8;
    uint64_t number = make_number(random);

    if (start > size || length > size - start || length < width)
        return 0;
    if (length > 64 && input_random(random) % 2)
        length = 64;
    memcpy(bytes + start + input_random(random) % (length - width + 1) / 4 * 4, &number, width);
    return 1;
}

static int mutate_section(uint8_t *bytes, size_t size, uint64_t *random)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    uint64_t at;

    if (size < sizeof(header))
        return 0;
    memcpy(&header, bytes, sizeof(header));
    if (header.e_shnum == 0 || header.e_shoff > size ||
        header.e_shnum * sizeof(section) > size - header.e_shoff)
        return 0;
    at = header.e_shoff + input_random(random) % header.e_shnum * sizeof(section);
    memcpy(&section, bytes + at, sizeof(section));
    if (section.sh_type == SHT_NOBITS || input_random(random) % 4 == 0)
        return put_number(bytes, size, at, sizeof(section), random);
    return put_number(bytes, size, section.sh_offset, section.sh_size, random);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed)
{
    uint64_t random = seed + 1;

    if (input_random(&random) % 2 && mutate_section(bytes, size, &random))
        return size;
    return LLVMFuzzerMutate(bytes, size, max_size);
}
