/* exported_objects.h - the data that an ELF file exports under a name: vtables, type_infos, tables.
 *
 * Read from `.dynsym`, one object at an address: of aliases the smallest, then the first by name.
 * Objects that hold no functions, or (VTTs, construction vtables) only those of others, are left
 * out.
 *
 * Context: as symbolize.h.
 */
#ifndef PYH_EXPORTED_OBJECTS_H
#define PYH_EXPORTED_OBJECTS_H

#include "elf_image.h"

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

/* 0 or -ENOMEM; none if there are no symbols to name anything by.  Names point into the image. */
int exported_objects_read(struct exported_objects *o, const struct elf_image *image);
void exported_objects_free(struct exported_objects *o);

/* The object that a whole word at `place` lies in: its index or NO_OBJECT. */
uint32_t exported_objects_at(const struct exported_objects *o, uint64_t place);

/* Of `.dynsym`.  Index 0 and what does not exist read as the undefined symbol. */
Elf64_Sym exported_objects_symbol(const struct exported_objects *o, size_t index);

/* Does the name at this offset, which may be any, start with that? */
int exported_objects_name_starts(const struct exported_objects *o, uint32_t name,
                                 const char *prefix);

/* At most `limit` bytes of the mangled name, not NUL-terminated. */
const char *exported_objects_name(const struct exported_objects *o,
                                  const struct exported_object *object, size_t limit,
                                  size_t *length);

/* As strcmp(), by 256 bytes of the names and then by their places in the string table. */
int exported_objects_compare_names(const struct exported_objects *o,
                                   const struct exported_object *a,
                                   const struct exported_object *b);

#endif
