/* stripped.h - names in libraries without a symbol table, by what they export.
 */
#ifndef PYH_STRIPPED_H
#define PYH_STRIPPED_H

#include "elf_reader.h"
#include "elf_image.h"
#include "symbolize.h"

/* --- exported_data.c ----------------------------------------------------------------------------- */

struct exported_data;

/* Returns 0 or -ENOMEM.  Names point into the image, which must outlive it; `fdes` is only read here. */
int exported_data_new(struct exported_data **out, const struct elf_image *image,
                      const struct fde_index *fdes);
void exported_data_free(struct exported_data *d);

/* Returns 1 and *out, or 0 if nothing names the address.  It may have a symbol as well: the caller looks
 * there first.  `d` may be NULL. */
int exported_data_find(const struct exported_data *d, uint64_t address, struct symbol *out);

/* --- exported_objects.c -------------------------------------------------------------------------- */

#define EXPORTED_WORD 8 /* bytes: what a pointer takes, and the least that an object has */
#define NO_OBJECT UINT32_MAX

/* The best name first.  DEFAULT: a kernel table's entry for no CPU in particular. */
enum object_kind { OBJECT_DEFAULT, OBJECT_OTHER, OBJECT_VTABLE, OBJECT_TYPE_INFO };

struct exported_object {
    uint64_t start, size;
    uint32_t name; /* offset into the strings */
    uint16_t section;
    uint8_t kind;
    uint8_t chain; /* for the user, 0 at first: bases above the class, the longest chain of them */
};

struct exported_objects {         /* all zero: none, may be freed */
    struct exported_object *list; /* sorted by address */
    size_t n;
    size_t section; /* `.dynsym` */
    const char *symbols, *strings;
    size_t n_symbols, strings_size;
};

/* Returns 0 or -ENOMEM; there are none without symbols to name anything by.  Names point into the image. */
int exported_objects_read(struct exported_objects *o, const struct elf_image *image);
void exported_objects_free(struct exported_objects *o);

/* Returns the index of the object that a whole word at `place` lies in, or NO_OBJECT. */
uint32_t exported_objects_at(const struct exported_objects *o, uint64_t place);

/* Returns a symbol of `.dynsym`.  Index 0 and what does not exist read as the undefined symbol. */
Elf64_Sym exported_objects_symbol(const struct exported_objects *o, size_t index);

/* Returns whether the name at this offset, which may be any, starts with `prefix`. */
int exported_objects_name_starts(const struct exported_objects *o, uint32_t name,
                                 const char *prefix);

/* Returns at most `limit` bytes of the mangled name, not NUL-terminated. */
const char *exported_objects_name(const struct exported_objects *o,
                                  const struct exported_object *object, size_t limit,
                                  size_t *length);

/* Compares as strcmp() does, by 256 bytes of the names and then by their places in the string table. */
int exported_objects_compare_names(const struct exported_objects *o,
                                   const struct exported_object *a,
                                   const struct exported_object *b);

/* --- hidden_vtables.c ---------------------------------------------------------------------------- */

struct hidden_vtables;

/* Returns 0 or -ENOMEM.  Names point into the image, which must outlive it; the rest is only read here. */
int hidden_vtables_new(struct hidden_vtables **out, const struct elf_image *image,
                       const struct fde_index *fdes, const struct exported_objects *objects);
void hidden_vtables_free(struct hidden_vtables *v);

/* Returns 1 and *out, or 0 if nothing names the address.  `v` may be NULL. */
int hidden_vtables_find(const struct hidden_vtables *v, uint64_t address, struct symbol *out);

#endif
