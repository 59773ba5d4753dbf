/* debugdata.h - unpacking `.gnu_debugdata`.
 *
 * A stripped library may carry the symbols of its static functions in a small ELF file, packed
 * with xz, in a section of its own (GDB manual, "MiniDebugInfo").
 *
 * Context: as symbolize.h.  The packed bytes are not trusted: no more than 64 times their size
 * comes out (at least 1 MiB, at most 512 MiB), and the decoder's dictionary is bounded.
 */
#ifndef PYH_DEBUGDATA_H
#define PYH_DEBUGDATA_H

#include <stddef.h>
#include <stdint.h>

/* 0 and *out for the caller to free(); -ENOMEM; -EFBIG: over the bound; -EBADMSG: damaged. */
int debugdata_unpack(const uint8_t *packed, size_t packed_size, uint8_t **out, size_t *out_size);

#endif
