/* eh_frame_hdr.h - where functions start, as the unwind tables say it.
 *
 * `.eh_frame_hdr` is a sorted table of (function start, FDE); it survives `strip`.  It keeps a
 * symbol without a size from naming the functions behind it that have no symbol, and says how far a
 * function without a symbol reaches.
 *
 * Source: LSB Core, "Exception Frames", .eh_frame_hdr; the encodings are DWARF's DW_EH_PE_*.
 * Context: as symbolize.h; allocates nothing, reads the sections in place.
 */
#ifndef PYH_EH_FRAME_HDR_H
#define PYH_EH_FRAME_HDR_H

#include <stddef.h>
#include <stdint.h>

struct fde_index { /* all zero: an empty index */
    const uint8_t *entries;
    size_t n;
    uint64_t base;
    const uint8_t *frames; /* `.eh_frame` */
    size_t frames_size;
    uint64_t frames_base;
};

/* `address` is the section's virtual address.  Leaves the index empty if the section is not laid
 * out as ld and lld do it. */
void fde_index_read(struct fde_index *f, const void *section, size_t size, uint64_t address);

/* The smallest function start above `address`, UINT64_MAX if there is none. */
uint64_t fde_index_next(const struct fde_index *f, uint64_t address);

/* Adds `.eh_frame`, which fde_index_size() reads. */
void fde_index_frames(struct fde_index *f, const void *section, size_t size, uint64_t address);

/* The size in bytes of the function that starts at `start`, cut where the next one starts; 0 if
 * none starts there, or its FDE does not hold or is not encoded as compilers do it. */
uint64_t fde_index_size(const struct fde_index *f, uint64_t start);

#endif
