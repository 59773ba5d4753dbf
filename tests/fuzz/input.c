/* input.c - see input.h. */
#include "input.h"

#include <elf.h>
#include <fcntl.h>
#include <sanitizer/allocator_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    size_t live, peak;
} heap;

static void note_malloc(const volatile void *block, size_t size)
{
    (void)block;
    heap.live += size;
    if (heap.peak < heap.live)
        heap.peak = heap.live;
}

static void note_free(const volatile void *block)
{
    size_t size = block ? __sanitizer_get_allocated_size(block) : 0;

    heap.live -= size < heap.live ? size : heap.live; /* it may be older than the count */
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    INPUT_CHECK(__sanitizer_install_malloc_and_free_hooks(note_malloc, note_free) > 0);
    return 0;
}

_Noreturn void input_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

void input_write(const uint8_t *bytes, size_t size)
{
    int fd = open(INPUT_PATH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    INPUT_CHECK(fd >= 0);
    INPUT_CHECK(write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

void input_count_memory(void)
{
    heap.live = heap.peak = 0;
}

void input_check_memory(size_t limit)
{
    if (heap.peak > limit)
        fprintf(stderr, "%zu bytes of memory, where %zu are allowed\n", heap.peak, limit);
    INPUT_CHECK(heap.peak <= limit);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    char *copy = malloc(length);

    (void)address, (void)protection, (void)flags;
    INPUT_CHECK(copy && pread(fd, copy, length, offset) == (ssize_t)length);
    return copy;
}

int __wrap_munmap(void *address, size_t length)
{
    (void)length;
    free(address);
    return 0;
}

uint64_t input_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The i-th entry of a table of the file, taken modulo its size; 0 if it does not lie there. */
static int entry_at(const uint8_t *bytes, size_t size, uint64_t table, uint64_t table_size,
                    size_t entry_size, uint64_t i, void *out)
{
    if (table > size || table_size > size - table || table_size < entry_size)
        return 0;
    memcpy(out, bytes + table + i % (table_size / entry_size) * entry_size, entry_size);
    return 1;
}

/* Somewhere in a section, or at a symbol's edge if the section is a table of them. */
static uint64_t make_address(const uint8_t *bytes, size_t size, uint64_t *random)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    Elf64_Sym symbol;
    uint64_t any = input_random(random);

    if (size < sizeof(header))
        return any;
    memcpy(&header, bytes, sizeof(header));
    if (!entry_at(bytes, size, header.e_shoff, header.e_shnum * sizeof(section), sizeof(section),
                  input_random(random), &section))
        return any;
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM)
        return section.sh_addr + (section.sh_size ? any % section.sh_size : 0);
    if (!entry_at(bytes, size, section.sh_offset, section.sh_size, sizeof(symbol), any, &symbol))
        return any;
    return symbol.st_value + (any >> 62 ? any % 16 : symbol.st_size) - any % 2;
}

void input_addresses(const uint8_t *bytes, size_t size, uint64_t addresses[N_ADDRESSES])
{
    uint64_t random = size + 1; /* the same input, the same addresses */

    addresses[0] = 0;
    addresses[1] = UINT64_MAX;
    for (size_t i = 2; i < N_ADDRESSES; i++)
        addresses[i] = make_address(bytes, size, &random);
}
