/* symbol_table.h - sorted function symbols: what covers an address (rules: symbolize.h).
 *
 * Filled once, indexed once, then read-only.  Knows nothing of ELF files: whoever adds an entry has
 * checked that start + size does not overflow.  Names stay where they are, in the string tables
 * that symbol_table_strings() was given, and are read only for aliases and for hits.
 *
 * Context: as symbolize.h.  Functions return 0 or -errno.
 */
#ifndef PYH_SYMBOL_TABLE_H
#define PYH_SYMBOL_TABLE_H

#include "symbolize.h"

enum entry_type {
    ENTRY_FUNCTION,
    ENTRY_IFUNC,
    ENTRY_OTHER
}; /* an IFUNC's address is its resolver's */

struct symbol_entry { /* the four bytes rank aliases, smaller is better */
    uint64_t start;
    uint64_t size;  /* if `unsized`: the most it may name */
    uint32_t name;  /* offset into its source's strings */
    uint8_t source; /* enum symbol_source */
    uint8_t unsized;
    uint8_t type;    /* enum entry_type */
    uint8_t binding; /* global, weak, local */
};

struct symbol_table;

int symbol_table_new(struct symbol_table **out);
void symbol_table_free(struct symbol_table *t);

/* `strings` must outlive the table. */
void symbol_table_strings(struct symbol_table *t, enum symbol_source source, const char *strings,
                          size_t length);
/* Makes room for n more entries, which symbol_table_add() then takes without failing. */
int symbol_table_reserve(struct symbol_table *t, size_t n);
void symbol_table_add(struct symbol_table *t, struct symbol_entry entry);
int symbol_table_index(struct symbol_table *t);

int symbol_table_find(const struct symbol_table *t, uint64_t address, struct symbol *out);
/* What the function is called that the resolver at `start` chooses: of the symbols that start there the
 * best of an IFUNC, else the best one. */
int symbol_table_find_chosen(const struct symbol_table *t, uint64_t start, struct symbol *out);

#endif
