/* exported_data.c - names for functions of stripped libraries, by the exported data that points
 * to them.
 *
 * `strip` leaves `.dynsym`, where hidden functions are not.  But where an exported object holds
 * such a function's address, there is a relocation, and the object's name shows what it is:
 *
 *     vtable for at::Foo                   word 5     virtual function 3 of at::Foo
 *     at::native::DispatchStub<...>::AVX2  word 0     the kernel for AVX2 in that table
 *
 * A function begins where an FDE does (eh_frame_hdr.h) and is as long as that.  Objects that the
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
 *      as exported type_infos have it;
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
 *
 * From exported objects and relocations to functions.
 *
 *     .dynsym                    objects    sorted by address, one at each
 *     relocations                pointers   those that lie in an object, sorted by place
 *     objects' pointers in turn  functions  sorted by start, the best name first, one at each
 *
 * The pointers are freed when the functions are found.
 */
#include "stripped.h"

#include "elf_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD EXPORTED_WORD
#define VTABLE_HEADER (2 * WORD)   /* offset to top, type_info; the address point follows */
#define TYPE_INFO_BASES (2 * WORD) /* vtable and name come before what points to bases */
#define CHAIN_MAX 32               /* bases above one another that are distinguished */
#define NAME_LENGTH_MAX (1u << 20)

struct pointer { /* a relocated word of an object */
    uint64_t place;
    uint64_t target; /* 0: it has a symbol, or is in another file */
    uint32_t object;
    uint32_t to_type_info; /* in vtables */
};

struct function {
    uint64_t start;
    uint32_t size;
    uint32_t object, table, slot;
};

struct exported_data {
    struct exported_objects objects;
    struct function *functions;
    size_t n_functions;
    struct hidden_vtables *hidden;
};

struct reader { /* what is needed while an exported_data is made */
    struct exported_data *d;
    const struct elf_image *image;
    const struct fde_index *fdes;
    uint64_t code_start, code_end; /* from the first to the last executable section */
    struct pointer *pointers;
    size_t n_pointers, capacity;
};

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_pointers(const void *one, const void *other)
{
    const struct pointer *a = one, *b = other;

    return order(a->place, b->place) ?: order(a->target, b->target)
           ?: order(a->to_type_info, b->to_type_info);
}

/* By start, then the best name first: the rules in exported_data.c. */
static int compare_functions(const void *one, const void *other, void *data)
{
    const struct exported_objects *objects = data;
    const struct function *a = one, *b = other;
    const struct exported_object *in_a = &objects->list[a->object];
    const struct exported_object *in_b = &objects->list[b->object];
    int c = order(a->start, b->start) ?: order(in_a->kind, in_b->kind);

    if (c == 0 && in_a->kind == OBJECT_VTABLE)
        c = order(a->table != 0, b->table != 0) ?: order(in_a->chain, in_b->chain);
    return c ?: order(in_a->size, in_b->size) ?: exported_objects_compare_names(objects, in_a, in_b)
             ?: order(a->table, b->table) ?: order(a->slot, b->slot);
}

static int is_code(const struct reader *r, uint64_t address)
{
    return address >= r->code_start && address < r->code_end;
}

static int add_pointer(struct reader *r, struct pointer pointer)
{
    if (r->n_pointers == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        struct pointer *larger = reallocarray(r->pointers, capacity, sizeof(*larger));

        if (!larger)
            return -ENOMEM;
        r->pointers = larger;
        r->capacity = capacity;
    }
    r->pointers[r->n_pointers++] = pointer;
    return 0;
}

/* The word itself as it stands in the file; 0 if it does not. */
static uint64_t read_word(const struct reader *r, const struct exported_object *o, uint64_t place)
{
    const char *bytes;
    size_t size = elf_image_bytes(r->image, o->section, &bytes);
    uint64_t at = place - r->image->sections[o->section].start, word = 0;

    if (size >= WORD && at <= size - WORD)
        memcpy(&word, bytes + at, WORD);
    return word;
}

static int add_relocation(void *context, const struct relocation *relocation)
{
    struct reader *r = context;
    const struct exported_objects *objects = &r->d->objects;
    struct pointer p = {.place = relocation->place};
    Elf64_Sym symbol;

    if (relocation->kind != RELOCATION_POINTER)
        return 0;
    p.object = exported_objects_at(objects, p.place);
    if (p.object == NO_OBJECT)
        return 0;
    if (relocation->symbol == 0) {
        p.target = relocation->packed ? read_word(r, &objects->list[p.object], p.place)
                                      : relocation->addend;
        p.to_type_info = !is_code(r, p.target);
        return add_pointer(r, p);
    }
    symbol = exported_objects_symbol(objects, relocation->symbol);
    p.to_type_info = (uint32_t)exported_objects_name_starts(objects, symbol.st_name, "_ZTI");
    if (symbol.st_shndx != SHN_UNDEF &&
        (p.to_type_info || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL))
        p.target = symbol.st_value + relocation->addend;
    return add_pointer(r, p);
}

/* The longest chain of bases above each class.  A cycle, which no compiler makes, ends, too. */
static void measure_chains(struct reader *r)
{
    struct exported_object *objects = r->d->objects.list;
    int changed = 1;

    for (int pass = 0; changed && pass < CHAIN_MAX; pass++) {
        changed = 0;
        for (size_t i = 0; i < r->n_pointers; i++) {
            const struct pointer *p = &r->pointers[i];
            struct exported_object *o = &objects[p->object];
            uint32_t base;

            if (o->kind != OBJECT_TYPE_INFO || p->place - o->start < TYPE_INFO_BASES)
                continue;
            base = exported_objects_at(&r->d->objects, p->target);
            if (base == NO_OBJECT || objects[base].kind != OBJECT_TYPE_INFO ||
                objects[base].chain < o->chain || objects[base].chain == CHAIN_MAX)
                continue;
            o->chain = (uint8_t)(objects[base].chain + 1);
            changed = 1;
        }
    }
}

static void add_function(struct reader *r, const struct pointer *p, uint32_t table, uint64_t offset)
{
    uint64_t size = is_code(r, p->target) ? fde_index_size(r->fdes, p->target) : 0;
    struct exported_data *d = r->d;

    if (size)
        d->functions[d->n_functions++] = (struct function){
            .start = p->target,
            .size = (uint32_t)size,
            .object = p->object,
            .table = table,
            .slot = (uint32_t)(offset / WORD),
        };
}

/* Without type_infos: functions in the place of the first ones, up to the first other word. */
static void read_vtable_without_types(struct reader *r, const struct pointer *p, size_t n)
{
    uint64_t address_point = r->d->objects.list[p->object].start + VTABLE_HEADER;

    for (size_t i = 0; i < n && p[i].place == address_point + i * WORD; i++)
        add_function(r, &p[i], 0, i * WORD);
}

static void read_vtable(struct reader *r, const struct pointer *p, size_t n)
{
    struct exported_object *objects = r->d->objects.list;
    uint64_t address_point = 0;
    uint32_t n_tables = 0, type;

    for (size_t i = 0; i < n; i++) {
        if (!p[i].to_type_info) {
            if (n_tables)
                add_function(r, &p[i], n_tables - 1, p[i].place - address_point);
            continue;
        }
        address_point = p[i].place + WORD;
        if (n_tables++)
            continue;
        type = exported_objects_at(&r->d->objects, p[i].target);
        if (type != NO_OBJECT)
            objects[p->object].chain = objects[type].chain;
    }
    if (n_tables == 0)
        read_vtable_without_types(r, p, n);
}

static int read_functions(struct reader *r)
{
    struct exported_data *d = r->d;
    size_t n = 0;

    d->functions = reallocarray(NULL, r->n_pointers + 1, sizeof(*d->functions));
    if (!d->functions)
        return -ENOMEM;
    for (size_t first = 0, last; first < r->n_pointers; first = last) {
        const struct pointer *p = &r->pointers[first];
        const struct exported_object *o = &d->objects.list[p->object];

        for (last = first; last < r->n_pointers && r->pointers[last].object == p->object; last++)
            if (o->kind < OBJECT_VTABLE)
                add_function(r, &r->pointers[last], 0, r->pointers[last].place - o->start);
        if (o->kind == OBJECT_VTABLE)
            read_vtable(r, p, last - first);
    }
    qsort_r(d->functions, d->n_functions, sizeof(*d->functions), compare_functions, &d->objects);
    for (size_t i = 0; i < d->n_functions; i++)
        if (n == 0 || d->functions[n - 1].start != d->functions[i].start)
            d->functions[n++] = d->functions[i];
    d->n_functions = n;
    return 0;
}

static int read_all(struct reader *r)
{
    struct exported_objects *objects = &r->d->objects;
    int error = exported_objects_read(objects, r->image);

    if (error || objects->n == 0)
        return error;
    error = relocations_read(r->image, objects->section, add_relocation, r);
    if (error || r->n_pointers == 0)
        return error;
    qsort(r->pointers, r->n_pointers, sizeof(*r->pointers), compare_pointers);
    measure_chains(r);
    return read_functions(r);
}

int exported_data_new(struct exported_data **out, const struct elf_image *image,
                      const struct fde_index *fdes)
{
    struct exported_data *d = calloc(1, sizeof(*d));
    struct reader r = {.d = d, .image = image, .fdes = fdes, .code_start = UINT64_MAX};
    int error;

    if (!d)
        return -ENOMEM;
    for (size_t i = 1; i < image->n_sections; i++) {
        const struct elf_section *s = &image->sections[i];

        if (!s->executable)
            continue;
        r.code_start = s->start < r.code_start ? s->start : r.code_start;
        r.code_end = s->end > r.code_end ? s->end : r.code_end;
    }
    error = read_all(&r);
    free(r.pointers);
    error = error ?: hidden_vtables_new(&d->hidden, image, fdes, &d->objects);
    if (error)
        exported_data_free(d);
    else
        *out = d;
    return error;
}

void exported_data_free(struct exported_data *d)
{
    if (!d)
        return;
    hidden_vtables_free(d->hidden);
    exported_objects_free(&d->objects);
    free(d->functions);
    free(d);
}

static int find_function(const struct exported_data *d, uint64_t address, struct symbol *out)
{
    size_t low = 0, high = d->n_functions; /* the last that starts at or before it */
    const struct function *f;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (d->functions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    f = &d->functions[low - 1];
    if (address - f->start >= f->size)
        return 0;
    out->name = exported_objects_name(&d->objects, &d->objects.list[f->object], NAME_LENGTH_MAX,
                                      &out->name_length);
    out->start = f->start;
    out->size = f->size;
    out->source = SOURCE_EXPORTED_DATA;
    out->of_type = 0;
    out->table = f->table;
    out->slot = f->slot;
    return out->name_length > 0;
}

int exported_data_find(const struct exported_data *d, uint64_t address, struct symbol *out)
{
    return d && (find_function(d, address, out) || hidden_vtables_find(d->hidden, address, out));
}
