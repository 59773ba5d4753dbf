/* fde.c - reading `.eh_frame_hdr` in place (see fde.h). */
#include "fde.h"

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

uint64_t fde_index_next(const struct fde_index *f, uint64_t address)
{
    size_t low = 0, high = f->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (start_of(f, middle) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->n ? start_of(f, low) : UINT64_MAX;
}
