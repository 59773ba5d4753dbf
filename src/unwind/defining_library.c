/* Source: System V ABI, "Dynamic Section"; the GNU hash table as glibc reads it (elf/dl-lookup.c: do_lookup_x). */
#include "defining_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "loader_lock.h"

struct table {
    Elf64_Addr base;
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash;
};

struct search {
    const char *function;
    unsigned long long seen, loaded;
    char path[PATH_MAX]; /* of what exports it; empty: the program itself */
};

/* The loader has made most of them addresses; of the vdso, which cannot be written to, it has not. */
static const void *at(Elf64_Addr base, Elf64_Addr pointer)
{
    return (const void *)(pointer < base ? base + pointer : pointer);
}

static bool read_table(const struct dl_phdr_info *info, struct table *t)
{
    const Elf64_Dyn *d = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    *t = (struct table){.base = info->dlpi_addr};
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            t->symbols = at(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->strings = at(t->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            t->hash = at(t->base, d->d_un.d_ptr);
    }
    return t->symbols && t->strings && t->hash;
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static bool exports(const struct table *t, const char *name)
{
    uint32_t n_buckets = t->hash[0], first = t->hash[1], bloom_words = t->hash[2];
    const uint32_t *buckets = t->hash + 4 + 2 * (size_t)bloom_words;
    const uint32_t *chain = buckets + n_buckets;
    uint32_t hash = hash_of(name), i = n_buckets ? buckets[hash % n_buckets] : 0;
    if (i < first)
        return false;
    for (;; i++) {
        const Elf64_Sym *s = &t->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && !strcmp(t->strings + s->st_name, name))
            return s->st_shndx != SHN_UNDEF;
        if (chain[i - first] & 1)
            return false;
    }
}

enum { NOT_THERE, THERE, NOTHING_NEW };

static int look_in(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct search *s = arg;
    struct table t;
    s->loaded = info->dlpi_adds;
    if (s->loaded == s->seen)
        return NOTHING_NEW;
    if (!read_table(info, &t) || !exports(&t, s->function))
        return NOT_THERE;
    snprintf(s->path, sizeof s->path, "%s", info->dlpi_name);
    return THERE;
}

void *defining_library(const char *function, unsigned long long *seen)
{
    struct search s = {.function = function, .seen = *seen};
    int result = loader_iterate(look_in, &s);
    *seen = s.loaded;
    if (result != THERE)
        return NULL;
    loader_keep_forks_out();
    void *library = dlopen(*s.path ? s.path : NULL, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    loader_let_forks_in();
    return library;
}
