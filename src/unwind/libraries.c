#include "libraries.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "compiler.h"
#include "memread.h"

#ifndef DLFO_STRUCT_HAS_EH_DBASE /* headers before glibc 2.35: its layout on x86-64, dlfcn.h */
struct dl_find_object {
    unsigned long long dlfo_flags;
    void *dlfo_map_start, *dlfo_map_end;
    struct link_map *dlfo_link_map;
    void *dlfo_eh_frame;
    unsigned long long dlfo_reserved[7];
};
int _dl_find_object(void *address, struct dl_find_object *result);
#endif

#pragma weak _dl_find_object

#define TRIES 4 /* while the table is being replaced */

struct library_tables library_tables;
bool libraries_by_table;

void libraries_use_table(bool wanted)
{
    libraries_by_table = wanted || !_dl_find_object;
}

static bool ask_libc(uint64_t address, struct library *o)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found))
        return false;
    *o = (struct library){(uint64_t)found.dlfo_map_start, (uint64_t)found.dlfo_map_end,
                          found.dlfo_eh_frame};
    return true;
}

/* The last entry that starts at or below the address; NULL: there is none. */
NO_TSAN static const struct library_entry *search(unsigned which, uint64_t address)
{
    const struct library_entry *entry = library_tables.table[which].entry;
    uint32_t low = 0, high = library_tables.table[which].n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entry[middle].object.start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &entry[low - 1] : NULL;
}

/* A version whose table was being written to meanwhile is of no use. */
NO_TSAN static bool look_up(uint64_t address, struct library_entry *found)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t version = atomic_load(&library_tables.version);
        const struct library_entry *entry = search(version & 1, address);
        if (entry)
            *found = *entry;
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&library_tables.version) == version)
            return entry && address < found->object.end;
    }
    return false;
}

bool libraries_find(uint64_t address, struct library *o)
{
    struct library_entry found;
    unsigned char now[LIBRARY_CHECKED];
    if (!libraries_by_table)
        return ask_libc(address, o);
    if (!look_up(address, &found))
        return false;
    *o = found.object;
    return !found.n_check || (memread(now, found.check_at, found.n_check) &&
                              !memcmp(now, found.check, found.n_check));
}
