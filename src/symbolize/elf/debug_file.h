/* debug_file.h - where the debug information that was split from an ELF file lies.
 *
 * Sought on this machine only, in this order:
 *   1. by build-id: ROOT/.build-id/ab/cdef.debug;
 *   2. by `.gnu_debuglink`, a name and a CRC-32: in the folder of the file (symbolic links
 *      resolved), in its `.debug` subfolder, and in ROOT + that folder.
 * What is found carries the same build-id where both files have one; by (1) it must have it.
 * Whether it holds DWARF is not looked at.
 *
 * `roots` is a list of folders separated by colons, as gdb's `debug-file-directory`.
 *
 * Context: as symbolize.h.  No network: debuginfod is never asked
 * (pyhybrid/symbols/source_positions.py does that, on request).
 * Source: GDB manual, "Debugging Information in Separate Files"; dwz(1) for `.gnu_debugaltlink`.
 */
#ifndef PYH_DEBUG_FILE_H
#define PYH_DEBUG_FILE_H

#include "elf_image.h"

#define DEBUG_FILE_ROOTS "/usr/lib/debug"

/* Finds the debug file of `image`, which was opened from `path`.  Returns 0 and *out, for the caller to
 * free(); -ENOENT: there is none; -ENOMEM; -errno if `path` cannot be resolved. */
int debug_file_find(const struct elf_image *image, const char *path, const char *roots, char **out);

/* The same for the file that dwz put what several files share into: by the build-id in
 * `.gnu_debugaltlink`, else by the path there, which may be relative to the folder of `path`. */
int debug_file_find_alternate(const struct elf_image *image, const char *path, const char *roots,
                              char **out);

#endif
