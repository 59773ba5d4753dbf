/* exported_objects.c - the data that an ELF file exports under a name: vtables, type_infos, tables.
 *
 * Read from `.dynsym`, one object at an address: of aliases the smallest, then the first by name.
 * Objects that hold no functions, or (VTTs, construction vtables) only those of others, are left
 * out.
 *
 * Context: as symbolize.h.
 *
 * Reading `.dynsym` for objects.
 */
#include "stripped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMPARED_NAME_LENGTH 256 /* bounds the work on hostile names */
#define ENTRY_NAME_MAX 1024      /* so does this */

const char *exported_objects_name(const struct exported_objects *o,
                                  const struct exported_object *object, size_t limit,
                                  size_t *length)
{
    size_t rest = o->strings_size - object->name;

    *length = strnlen(o->strings + object->name, rest < limit ? rest : limit);
    return o->strings + object->name;
}

int exported_objects_name_starts(const struct exported_objects *o, uint32_t name,
                                 const char *prefix)
{
    size_t n = strlen(prefix);

    return name < o->strings_size && o->strings_size - name >= n &&
           memcmp(o->strings + name, prefix, n) == 0;
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

int exported_objects_compare_names(const struct exported_objects *o,
                                   const struct exported_object *a, const struct exported_object *b)
{
    size_t length_a, length_b;
    const char *name_a = exported_objects_name(o, a, COMPARED_NAME_LENGTH, &length_a);
    const char *name_b = exported_objects_name(o, b, COMPARED_NAME_LENGTH, &length_b);
    int c = memcmp(name_a, name_b, length_a < length_b ? length_a : length_b);

    return c ?: order(length_a, length_b) ?: order(a->name, b->name);
}

static int compare_objects(const void *one, const void *other, void *data)
{
    const struct exported_object *a = one, *b = other;

    return order(a->start, b->start) ?: order(a->size, b->size)
           ?: exported_objects_compare_names(data, a, b);
}

/* -1: one that holds no functions, or (VTTs, construction vtables) functions of others. */
static int kind_of(const struct exported_objects *o, const struct exported_object *object)
{
    static const char entry[] = "7DEFAULTE"; /* static data member DEFAULT */
    size_t length;
    const char *name = exported_objects_name(o, object, ENTRY_NAME_MAX, &length);

    if (exported_objects_name_starts(o, object->name, "_ZTV"))
        return OBJECT_VTABLE;
    if (exported_objects_name_starts(o, object->name, "_ZTI"))
        return OBJECT_TYPE_INFO;
    if (exported_objects_name_starts(o, object->name, "_ZT"))
        return -1;
    length = length < sizeof(entry) ? 0 : length - (sizeof(entry) - 1);
    return length && memcmp(name + length, entry, sizeof(entry) - 1) == 0 ? OBJECT_DEFAULT
                                                                          : OBJECT_OTHER;
}

/* Notes the symbol if it is an object that may point to functions. */
static void add_object(struct exported_objects *o, const struct elf_image *image,
                       const Elf64_Sym *symbol)
{
    struct exported_object *object = &o->list[o->n];
    const struct elf_section *section;
    int kind;

    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
        ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || symbol->st_size < EXPORTED_WORD ||
        symbol->st_name == 0 || symbol->st_name >= o->strings_size ||
        symbol->st_shndx >= SHN_LORESERVE || symbol->st_shndx >= image->n_sections)
        return;
    section = &image->sections[symbol->st_shndx];
    if (symbol->st_value < section->start || symbol->st_value >= section->end ||
        symbol->st_size > section->end - symbol->st_value)
        return;
    *object = (struct exported_object){
        .start = symbol->st_value,
        .size = symbol->st_size,
        .name = symbol->st_name,
        .section = symbol->st_shndx,
    };
    kind = kind_of(o, object);
    if (kind < 0)
        return;
    object->kind = (uint8_t)kind;
    o->n++;
}

Elf64_Sym exported_objects_symbol(const struct exported_objects *o, size_t index)
{
    Elf64_Sym symbol = {0};

    if (index < o->n_symbols)
        memcpy(&symbol, o->symbols + index * sizeof(symbol), sizeof(symbol));
    return symbol;
}

int exported_objects_read(struct exported_objects *o, const struct elf_image *image)
{
    Elf64_Shdr header;
    size_t n = 0;

    memset(o, 0, sizeof(*o));
    o->section = elf_image_find(image, SHT_DYNSYM, NULL);
    if (!elf_image_section(image, o->section, &header) || header.sh_entsize != sizeof(Elf64_Sym))
        return 0;
    o->n_symbols = elf_image_bytes(image, o->section, &o->symbols) / sizeof(Elf64_Sym);
    o->strings_size = elf_image_bytes(image, header.sh_link, &o->strings);
    if (o->n_symbols == 0 || o->strings_size == 0)
        return 0;
    o->list = calloc(o->n_symbols + 1, sizeof(*o->list));
    if (!o->list)
        return -ENOMEM;
    for (size_t i = 1; i < o->n_symbols; i++) {
        Elf64_Sym symbol = exported_objects_symbol(o, i);

        add_object(o, image, &symbol);
    }
    qsort_r(o->list, o->n, sizeof(*o->list), compare_objects, o);
    for (size_t i = 0; i < o->n; i++) /* aliases: the first is the smallest */
        if (n == 0 || o->list[n - 1].start != o->list[i].start)
            o->list[n++] = o->list[i];
    o->n = n;
    return 0;
}

void exported_objects_free(struct exported_objects *o)
{
    free(o->list);
}

uint32_t exported_objects_at(const struct exported_objects *o, uint64_t place)
{
    size_t low = 0, high = o->n; /* the last one that starts at or before it */
    const struct exported_object *object;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (o->list[middle].start <= place)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NO_OBJECT;
    object = &o->list[low - 1];
    if (place - object->start > object->size - EXPORTED_WORD ||
        (place - object->start) % EXPORTED_WORD)
        return NO_OBJECT;
    return (uint32_t)(low - 1);
}
