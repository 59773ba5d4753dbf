/* line_program.h - one question to a unit's line table, which libdw does not answer.
 *
 * DWARF 2 to 5, section 6.2.  Any thread, no state, never reads outside the section.
 */
#ifndef PYH_LINE_PROGRAM_H
#define PYH_LINE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Returns whether the table that begins at `begin` of a .debug_line section of `size` bytes may define files
 * in its program (DW_LNE_define_file); its unit has addresses of 8 bytes.  It is 1 also for what a reader
 * could take in two ways: no table that is damaged gets a 0 by which another reader then finds such
 * a file. */
int line_program_may_define_files(const uint8_t *section, size_t size, size_t begin);

#endif
