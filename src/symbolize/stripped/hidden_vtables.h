/* hidden_vtables.h - names for virtual functions of stripped libraries, by the names of types.
 *
 * The vtable of a class that is not exported has no symbol left, but unless the code was compiled
 * with -fno-rtti it points to the class's type_info, and that to the type's name:
 *
 *     type_info   [vtable of a class in __cxxabiv1] [name] ...      "N2at3FooE"
 *     vtable      [offset to top] [type_info] [function] [function] ...
 *
 * A type_info is known by its first word, the one relocation against a symbol that it needs; a
 * vtable by a pointer to a type_info between an offset to top that is no address and a function.
 * Slots and virtual tables are counted as in exported_data.h, whose rules for functions that stand
 * in several vtables hold here, too, but that the length of a vtable stands for its object's size.
 *
 * The file is not trusted: everything is checked, the work is n log n.
 *
 * Context: as symbolize.h.  Source: Itanium C++ ABI 2.5.2 (vtables), 2.9.5 (type_infos).
 */
#ifndef PYH_HIDDEN_VTABLES_H
#define PYH_HIDDEN_VTABLES_H

#include "exported_objects.h"
#include "eh_frame_hdr.h"
#include "symbolize.h"

struct hidden_vtables;

/* 0 or -ENOMEM.  Names point into the image, which must outlive it; the rest is only read here. */
int hidden_vtables_new(struct hidden_vtables **out, const struct elf_image *image,
                       const struct fde_index *fdes, const struct exported_objects *objects);
void hidden_vtables_free(struct hidden_vtables *v);

/* 1 and *out, or 0 if nothing names the address.  `v` may be NULL. */
int hidden_vtables_find(const struct hidden_vtables *v, uint64_t address, struct symbol *out);

#endif
