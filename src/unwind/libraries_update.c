/* Which libraries are loaded, read anew when the loader's counts show that it loaded or unloaded one (libraries.h). */
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "build_id.h"
#include "libraries.h"
#include "loader_lock.h"

static unsigned long long adds, subs; /* of the loader, when the table was made */

static void check_by(struct library_entry *e, uint64_t at, size_t n)
{
    e->check_at = at;
    e->n_check = n < LIBRARY_CHECKED ? (uint32_t)n : LIBRARY_CHECKED;
    memcpy(e->check, (const void *)at, e->n_check);
}

static struct library_entry describe(const struct dl_phdr_info *info)
{
    struct library_entry e = {.object = {.start = ~0ull}};
    size_t eh_frame_size = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + h->p_vaddr, end = start + h->p_memsz;
        if (h->p_type == PT_GNU_EH_FRAME) {
            e.object.eh_frame = (const uint8_t *)start;
            eh_frame_size = h->p_memsz;
        }
        size_t length;
        const unsigned char *build_id =
            h->p_type == PT_NOTE ? build_id_find((const void *)start, h->p_memsz, &length) : NULL;
        if (build_id)
            check_by(&e, (uint64_t)build_id, length);
        if (h->p_type != PT_LOAD)
            continue;
        if (start < e.object.start)
            e.object.start = start;
        if (end > e.object.end)
            e.object.end = end;
    }
    if (!e.n_check && eh_frame_size)
        check_by(&e, (uint64_t)e.object.eh_frame, eh_frame_size);
    return e;
}

static int by_start(const void *a, const void *b)
{
    const struct library_entry *x = a, *y = b;
    return (x->object.start > y->object.start) - (x->object.start < y->object.start);
}

static int changed(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    bool same = info->dlpi_adds == adds && info->dlpi_subs == subs;
    adds = info->dlpi_adds;
    subs = info->dlpi_subs;
    return same ? 1 : 2; /* not 0: the first object is enough */
}

static int add(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    uint32_t *n = arg;
    unsigned which = (atomic_load(&library_tables.version) + 1) & 1;
    struct library_entry e = describe(info);
    if (*n < LIBRARIES_MAX && e.object.start < e.object.end)
        library_tables.table[which].entry[(*n)++] = e;
    return 0;
}

bool libraries_update(void)
{
    uint64_t version = atomic_load(&library_tables.version);
    uint32_t n = 0;
    if (!libraries_by_table || (loader_iterate(changed, NULL) == 1 && version))
        return false;
    loader_iterate(add, &n);
    qsort(library_tables.table[(version + 1) & 1].entry, n, sizeof(struct library_entry), by_start);
    library_tables.table[(version + 1) & 1].n = n;
    atomic_store(&library_tables.version, version + 1);
    return true;
}
