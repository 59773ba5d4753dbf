/* eh_frame_hdr.c - where functions start, by the unwind tables.
 *
 * `.eh_frame_hdr` is a sorted table of (function start, FDE); it survives `strip`.  It keeps a
 * symbol without a size from naming the functions behind it that have no symbol, and has how far a
 * function without a symbol reaches.
 *
 * Source: LSB Core, "Exception Frames", .eh_frame_hdr; the encodings are DWARF's DW_EH_PE_*.
 * Context: as symbolize.h; allocates nothing, reads the sections in place.
 *
 * Reading `.eh_frame_hdr` and `.eh_frame` in place.
 */
#include "elf_reader.h"

#include <string.h>

#define ENC_UDATA4 0x03
#define ENC_DATAREL_SDATA4 0x3b
#define ENC_PCREL_SDATA4 0x1b
#define HEADER_SIZE 12 /* version, three encodings, .eh_frame pointer, count */
#define ENTRY_SIZE 8   /* start and FDE, both int32_t relative to the section */

void fde_index_read(struct fde_index *f, const void *section, size_t size, uint64_t address)
{
    static const uint8_t usual[] = {1, ENC_PCREL_SDATA4, ENC_UDATA4, ENC_DATAREL_SDATA4};
    uint32_t n;

    memset(f, 0, sizeof(*f));
    if (size < HEADER_SIZE || memcmp(section, usual, sizeof(usual)) != 0)
        return;
    memcpy(&n, (const uint8_t *)section + 8, sizeof(n));
    if (n > (size - HEADER_SIZE) / ENTRY_SIZE)
        return;
    f->entries = (const uint8_t *)section + HEADER_SIZE;
    f->n = n;
    f->base = address;
}

static uint64_t start_of(const struct fde_index *f, size_t i)
{
    int32_t relative;

    memcpy(&relative, f->entries + i * ENTRY_SIZE, sizeof(relative));
    return f->base + (uint64_t)(int64_t)relative;
}

/* The first entry that starts above `address`. */
static size_t entry_above(const struct fde_index *f, uint64_t address)
{
    size_t low = 0, high = f->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (start_of(f, middle) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t fde_index_next(const struct fde_index *f, uint64_t address)
{
    size_t above = entry_above(f, address);

    return above < f->n ? start_of(f, above) : UINT64_MAX;
}

void fde_index_frames(struct fde_index *f, const void *section, size_t size, uint64_t address)
{
    f->frames = section;
    f->frames_size = size;
    f->frames_base = address;
}

/* An FDE begins with its length, its CIE's distance, and the function's start and size, encoded as
 * in the CIE.  Everyone writes the start as a 4-byte distance from itself: if it reads as the
 * start that the table gave, then the size is the next 4 bytes. */
static uint64_t fde_range(const struct fde_index *f, size_t entry)
{
    uint64_t start = start_of(f, entry), at;
    struct {
        uint32_t length, cie;
        int32_t start;
        uint32_t size;
    } fde;
    int32_t relative;

    memcpy(&relative, f->entries + entry * ENTRY_SIZE + sizeof(relative), sizeof(relative));
    at = f->base + (uint64_t)(int64_t)relative - f->frames_base;
    if (f->frames_size < sizeof(fde) || at > f->frames_size - sizeof(fde))
        return 0;
    memcpy(&fde, f->frames + at, sizeof(fde));
    at += f->frames_base + offsetof(__typeof__(fde), start);
    return fde.cie != 0 && at + (uint64_t)(int64_t)fde.start == start ? fde.size : 0;
}

uint64_t fde_index_size(const struct fde_index *f, uint64_t start)
{
    size_t above = entry_above(f, start);
    uint64_t size, limit;

    if (above == 0 || start_of(f, above - 1) != start)
        return 0;
    size = fde_range(f, above - 1);
    limit = above < f->n ? start_of(f, above) - start : UINT64_MAX - start;
    return size < limit ? size : limit;
}
