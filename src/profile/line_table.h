/* line_table.h - the location table of a code object (co_linetable): from its instructions to their lines.
 *
 * Format: PEP 626, PEP 657 and CPython's Objects/locations.md (3.11 to 3.15: the same).  An entry is a byte with bit 7 set
 * (bits 3..6: the form, bits 0..2: code units covered - 1) and bytes without it, so entries are found without decoding
 * the columns.  Any bytes are read without harm; what they mean is undefined then.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.
 */
#ifndef PYH_LINE_TABLE_H
#define PYH_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define LINE_TABLE_NONE (-1) /* the instructions have no line */

/* Runs of code units of one line, in order: from start[i] on lies line[i].  Both have room for n, the table's bytes; *n_runs
 * is how many there are.  Returns the first code unit behind the table. */
uint32_t line_table_runs(const uint8_t *table, size_t n, int64_t first_line, uint32_t *start,
                         int64_t *line, size_t *n_runs);

#endif
