/* Sources: Linux Documentation/ABI/stable/vdso; tools/testing/selftests/vDSO/parse_vdso.c; man 7 vdso, man 3 getauxval. */
#include "clock.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#if defined __x86_64__
#define FUNCTION "__vdso_clock_gettime"
#elif defined __aarch64__
#define FUNCTION "__kernel_clock_gettime"
#endif

void clock_sleep_ns(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    arch_syscall6(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&time, 0, 0, 0);
}

#ifdef FUNCTION
struct image {
    uintptr_t moved; /* addresses in the image count from here */
    const ElfW(Sym) * symbols;
    const char *names;
    size_t n;
};

/* How many symbols there are: by the chains of either hash table. */
static size_t gnu_count(const uint32_t *hash)
{
    uint32_t n_buckets = hash[0], first = hash[1], n_words = hash[2], last = 0;
    const uint32_t *buckets = hash + 4 + n_words * (sizeof(ElfW(Addr)) / sizeof *hash);
    for (uint32_t i = 0; i < n_buckets; i++)
        if (buckets[i] > last)
            last = buckets[i];
    if (last < first)
        return first;
    while (!(buckets[n_buckets + last - first] & 1))
        last++;
    return last + 1;
}

static void take(struct image *image, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *at = (const void *)(image->moved + entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            image->symbols = at;
        else if (entry->d_tag == DT_STRTAB)
            image->names = at;
        else if (entry->d_tag == DT_HASH)
            image->n = ((const uint32_t *)at)[1];
        else if (entry->d_tag == DT_GNU_HASH && !image->n)
            image->n = gnu_count(at);
    }
}

static bool is_it(const struct image *image, const ElfW(Sym) * symbol)
{
    return symbol->st_shndx != SHN_UNDEF && !strcmp(image->names + symbol->st_name, FUNCTION);
}

/* Before anything of ours reads a clock: when this object is loaded. */
static __attribute__((constructor)) void find_in_vdso(void)
{
    const ElfW(Ehdr) *head = (const void *)getauxval(AT_SYSINFO_EHDR);
    struct image image = {0};
    const ElfW(Dyn) *dynamic = NULL;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG))
        return;
    const ElfW(Phdr) *segment = (const void *)((uintptr_t)head + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && !image.moved)
            image.moved = (uintptr_t)head + segment[i].p_offset - segment[i].p_vaddr;
        else if (segment[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)((uintptr_t)head + segment[i].p_offset);
    if (dynamic)
        take(&image, dynamic);
    for (size_t i = 0; image.symbols && image.names && i < image.n; i++)
        if (is_it(&image, &image.symbols[i]))
            clock_reader_of_vdso = (clock_reader *)(image.moved + image.symbols[i].st_value);
}
#endif
