/* exported_data.h - names for functions of stripped libraries, by the exported data that points
 * to them.
 *
 * `strip` leaves `.dynsym`, where hidden functions are not.  But where an exported object holds
 * such a function's address, a relocation says so, and the object's name tells what it is:
 *
 *     vtable for at::Foo                   word 5     virtual function 3 of at::Foo
 *     at::native::DispatchStub<...>::AVX2  word 0     the kernel for AVX2 in that table
 *
 * A function begins where an FDE does (eh_frame_hdr.h) and is as long as that says.  Objects that the
 * program may write to name what they hold at its start.
 *
 * In a vtable, slots are counted from the address point, which follows the pointer to the
 * type_info, and its virtual tables from the primary one, which is 0.  Without type_infos
 * (-fno-rtti) only the primary table of a class without virtual bases is read.  VTTs and
 * construction vtables name nothing.
 *
 * One function may stand in many places.  Its name is that, in this order:
 *   1. of an object that is no vtable; of a static data member called DEFAULT, for what PyTorch
 *      enters there and under AVX2, too, is for no CPU in particular;
 *   2. of a primary virtual table; of the class with the shortest chain of bases above it, as far
 *      as exported type_infos tell;
 *   3. of the smallest object, then of the first by its mangled name (by 256 bytes of it, then by
 *      its place in the string table); there the first table and slot.
 *
 * What stands in no exported object is sought in the vtables of classes that are not exported
 * (hidden_vtables.h).
 *
 * The file is not trusted: everything is checked, the work is n log n and memory at most ten times
 * the file's size.
 *
 * Context: as symbolize.h.  Source: Itanium C++ ABI 2.5.2 (vtables), 2.9.5 (type_infos), 5.1.4
 * (their names).
 */
#ifndef PYH_EXPORTED_DATA_H
#define PYH_EXPORTED_DATA_H

#include "elf_image.h"
#include "eh_frame_hdr.h"
#include "symbolize.h"

struct exported_data;

/* 0 or -ENOMEM.  Names point into the image, which must outlive it; `fdes` is only read here. */
int exported_data_new(struct exported_data **out, const struct elf_image *image,
                      const struct fde_index *fdes);
void exported_data_free(struct exported_data *d);

/* 1 and *out, or 0 if nothing names the address.  It may have a symbol as well: the caller looks
 * there first.  `d` may be NULL. */
int exported_data_find(const struct exported_data *d, uint64_t address, struct symbol *out);

#endif
