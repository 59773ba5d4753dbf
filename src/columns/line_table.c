/* line_table.c - the location table of a code object (co_linetable): from its instructions to their lines.
 *
 * Format: PEP 626, PEP 657 and CPython's Objects/locations.md (3.11 to 3.15: the same).  An entry is a byte with bit 7 set
 * (bits 3..6: the form, bits 0..2: code units covered - 1) and bytes without it, so entries are found without decoding
 * the columns.  Any bytes are read without harm; what they mean is undefined then.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.
 */
#include "passes.h"

enum form {
    FORM_ONE_LINE = 10, /* to 12: so many lines further, less 10; those before: the same line */
    FORM_NO_COLUMN = 13,
    FORM_LONG = 14, /* these two have the number of lines further */
    FORM_NONE = 15,
};

/* The signed varint at `at`: 6 bits a byte, the lowest first, bit 6 where more follow. */
static int64_t read_signed(const uint8_t *table, size_t n, size_t at)
{
    uint64_t value = 0;

    for (unsigned shift = 0; at < n && !(table[at] & 128); at++, shift += 6) {
        if (shift < 60)
            value |= (uint64_t)(table[at] & 63) << shift;
        if (!(table[at] & 64))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

uint32_t line_table_runs(const uint8_t *table, size_t n, int64_t first_line, uint32_t *start,
                         int64_t *line, size_t *n_runs)
{
    uint64_t here = (uint64_t)first_line;
    int64_t last = 0;
    uint32_t unit = 0;

    *n_runs = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned form = table[i] >> 3 & 15;
        int64_t of_entry;

        if (!(table[i] & 128))
            continue;
        if (form == FORM_NO_COLUMN || form == FORM_LONG)
            here += (uint64_t)read_signed(table, n, i + 1);
        else if (form >= FORM_ONE_LINE && form < FORM_NO_COLUMN)
            here += form - FORM_ONE_LINE;
        of_entry = form == FORM_NONE ? LINE_TABLE_NONE : (int64_t)here;
        if (*n_runs == 0 || of_entry != last) {
            start[*n_runs] = unit;
            line[(*n_runs)++] = of_entry;
            last = of_entry;
        }
        unit += (table[i] & 7) + 1;
    }
    return unit;
}
