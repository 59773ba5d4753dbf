/* hidden_vtables.c - names for virtual functions of stripped libraries, by the names of types.
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
 *
 * From relocations to type_infos, to vtables, to functions.
 *
 * The relocated words are freed when the functions are found.
 */
#include "stripped.h"

#include "elf_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD EXPORTED_WORD
#define OF_TYPE_INFO UINT64_MAX /* a word's target: the vtable of a class of type_infos */
#define CHAIN_MAX 32            /* bases above one another that are distinguished */
#define BASES_MAX 256
#define NO_TYPE SIZE_MAX
#define NAME_LENGTH_MAX (1u << 20)

struct word {        /* a relocated one */
    uint64_t place;  /* where it is */
    uint64_t target; /* 0: in another file */
};

struct type {
    uint64_t place; /* of its type_info */
    size_t word;    /* the type_info's first one */
    const char *name;
    size_t name_length;
    unsigned chain; /* bases above it, the longest chain of them */
};

struct function {
    uint64_t start;
    uint32_t size;
    uint32_t table, slot;
    uint32_t n_slots; /* of the virtual table */
    size_t type;
};

struct hidden_vtables {
    struct type *types; /* by place */
    size_t n_types;
    struct function *functions; /* by start, one at each */
    size_t n_functions;
};

struct reader { /* what is needed while a hidden_vtables is made */
    struct hidden_vtables *v;
    const struct elf_image *image;
    const struct fde_index *fdes;
    const struct exported_objects *objects;
    struct word *words; /* by place */
    size_t n_words, capacity;
};

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* What the file holds at the address, and how much of it there is in the section. */
static const char *bytes_at(const struct elf_image *image, uint64_t address, size_t *rest)
{
    for (size_t i = 1; i < image->n_sections; i++) {
        const struct elf_section *s = &image->sections[i];
        const char *bytes;
        size_t size;

        if (address < s->start || address >= s->end)
            continue;
        size = elf_image_bytes(image, i, &bytes);
        if (address - s->start >= size) /* .tbss has the addresses of what comes after it */
            continue;
        *rest = size - (address - s->start);
        return bytes + (address - s->start);
    }
    *rest = 0;
    return NULL;
}

static uint64_t read_word(const struct reader *r, uint64_t place)
{
    size_t rest;
    const char *bytes = bytes_at(r->image, place, &rest);
    uint64_t word = 0;

    if (rest >= WORD)
        memcpy(&word, bytes, WORD);
    return word;
}

#define OF_TYPE_INFOS "_ZTVN10__cxxabiv1" /* __class_type_info, __si_class_type_info, ... */

/* Is there a symbol by which a type_info could be known?  If not, no relocation need be read. */
static int may_have_types(const struct exported_objects *objects)
{
    for (size_t i = 1; i < objects->n_symbols; i++)
        if (exported_objects_name_starts(objects, exported_objects_symbol(objects, i).st_name,
                                         OF_TYPE_INFOS))
            return 1;
    return 0;
}

static int add_relocation(void *context, const struct relocation *relocation)
{
    struct reader *r = context;
    struct word word = {relocation->place, relocation->addend};

    if (relocation->kind != RELOCATION_POINTER)
        return 0;
    if (relocation->symbol) {
        Elf64_Sym symbol = exported_objects_symbol(r->objects, relocation->symbol);

        if (exported_objects_name_starts(r->objects, symbol.st_name, OF_TYPE_INFOS))
            word.target = OF_TYPE_INFO;
        else
            word.target = symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value + relocation->addend;
    } else if (relocation->packed) {
        word.target = read_word(r, relocation->place);
    }
    if (r->n_words == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        struct word *larger = reallocarray(r->words, capacity, sizeof(*larger));

        if (!larger)
            return -ENOMEM;
        r->words = larger;
        r->capacity = capacity;
    }
    r->words[r->n_words++] = word;
    return 0;
}

static int compare_words(const void *one, const void *other)
{
    const struct word *a = one, *b = other;

    return order(a->place, b->place) ?: order(a->target, b->target);
}

/* Is there a word i, at this place? */
static int word_is_at(const struct reader *r, size_t i, uint64_t place)
{
    return i < r->n_words && r->words[i].place == place;
}

static int read_types(struct reader *r)
{
    struct hidden_vtables *v = r->v;
    size_t n = 0;

    for (size_t i = 0; i < r->n_words; i++)
        n += r->words[i].target == OF_TYPE_INFO;
    v->types = reallocarray(NULL, n + 1, sizeof(*v->types));
    if (!v->types)
        return -ENOMEM;
    for (size_t i = 0; i < r->n_words; i++) {
        struct type type = {.place = r->words[i].place, .word = i};
        size_t rest;

        if (r->words[i].target != OF_TYPE_INFO || !word_is_at(r, i + 1, type.place + WORD))
            continue;
        type.name = bytes_at(r->image, r->words[i + 1].target, &rest);
        if (rest && *type.name == '*') { /* "compare by address": no part of the name */
            type.name++;
            rest--;
        }
        type.name_length = rest ? strnlen(type.name, rest) : 0;
        if (type.name_length && type.name_length < rest && type.name_length < NAME_LENGTH_MAX)
            v->types[v->n_types++] = type;
    }
    return 0;
}

static size_t find_type(const struct hidden_vtables *v, uint64_t place)
{
    size_t low = 0, high = v->n_types;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (v->types[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->n_types && v->types[low].place == place ? low : NO_TYPE;
}

/* Makes the type's chain longer than that of the base at `place`, word `i`; 1 if that changed it. */
static int extend_chain(struct reader *r, struct type *type, size_t i, uint64_t place)
{
    size_t base = word_is_at(r, i, place) ? find_type(r->v, r->words[i].target) : NO_TYPE;

    if (base == NO_TYPE || r->v->types[base].chain < type->chain ||
        r->v->types[base].chain == CHAIN_MAX)
        return 0;
    type->chain = r->v->types[base].chain + 1;
    return 1;
}

/* One base follows the name at once (__si_class_type_info); several, after flags and their number,
 * are two words each (__vmi_class_type_info). */
static int extend_by_bases(struct reader *r, struct type *type)
{
    uint64_t place = type->place + 2 * WORD, n_bases;
    size_t i = type->word + 2;
    int changed = 0;

    if (word_is_at(r, i, place))
        return extend_chain(r, type, i, place);
    n_bases = read_word(r, place) >> 32;
    for (uint64_t base = 0; base < n_bases && base < BASES_MAX; base++, i++)
        changed |= extend_chain(r, type, i, place + WORD + base * 2 * WORD);
    return changed;
}

/* A cycle, which no compiler makes, ends, too. */
static void measure_chains(struct reader *r)
{
    int changed = 1;

    for (int pass = 0; changed && pass < CHAIN_MAX; pass++) {
        changed = 0;
        for (size_t i = 0; i < r->v->n_types; i++)
            changed |= extend_by_bases(r, &r->v->types[i]);
    }
}

/* Adds the functions of the virtual table whose slots begin at `place`, word `first`; returns where
 * they end.  A slot without a function here (pure, or another file's) has a word, too. */
static size_t add_functions(struct reader *r, size_t first, uint64_t place, struct function found)
{
    struct hidden_vtables *v = r->v;
    size_t i = first, n = v->n_functions;

    for (; word_is_at(r, i, place + (i - first) * WORD); i++) {
        uint64_t target = r->words[i].target;
        uint64_t size = target == OF_TYPE_INFO ? 0 : fde_index_size(r->fdes, target);

        if (size == 0 && target != 0)
            break;
        found.start = target;
        found.size = (uint32_t)size;
        found.slot = (uint32_t)(i - first);
        if (size)
            v->functions[v->n_functions++] = found;
    }
    for (; n < v->n_functions; n++)
        v->functions[n].n_slots = (uint32_t)(i - first);
    return i;
}

static void read_vtables(struct reader *r)
{
    struct function found = {.type = NO_TYPE};

    for (size_t i = 0, next; i < r->n_words; i = next) {
        uint64_t place = r->words[i].place;
        size_t type = find_type(r->v, r->words[i].target);
        int64_t to_top;

        next = i + 1;
        if (type == NO_TYPE || (i > 0 && r->words[i - 1].place == place - WORD))
            continue;
        to_top = (int64_t)read_word(r, place - WORD);
        if (to_top > 0 || !word_is_at(r, next, place + WORD))
            continue;
        if (to_top == 0)
            found.table = 0;
        else
            found.table = type == found.type ? found.table + 1 : 1;
        found.type = type;
        next = add_functions(r, next, place + WORD, found);
    }
}

static int compare_types(const struct type *a, const struct type *b)
{
    int c =
        memcmp(a->name, b->name, a->name_length < b->name_length ? a->name_length : b->name_length);

    return c ?: order(a->name_length, b->name_length) ?: order(a->place, b->place);
}

static int compare_functions(const void *one, const void *other, void *types)
{
    const struct function *a = one, *b = other;
    const struct type *of_a = (struct type *)types + a->type,
                      *of_b = (struct type *)types + b->type;

    return order(a->start, b->start) ?: order(a->table != 0, b->table != 0)
           ?: order(of_a->chain, of_b->chain) ?: order(a->n_slots, b->n_slots)
           ?: compare_types(of_a, of_b) ?: order(a->table, b->table) ?: order(a->slot, b->slot);
}

static int read_all(struct reader *r)
{
    struct hidden_vtables *v = r->v;
    size_t n = 0;
    int error;

    if (!may_have_types(r->objects))
        return 0;
    error = relocations_read(r->image, r->objects->section, add_relocation, r);
    if (error || r->n_words == 0)
        return error;
    qsort(r->words, r->n_words, sizeof(*r->words), compare_words);
    error = read_types(r);
    if (error || v->n_types == 0)
        return error;
    measure_chains(r);
    v->functions = reallocarray(NULL, r->n_words, sizeof(*v->functions));
    if (!v->functions)
        return -ENOMEM;
    read_vtables(r);
    qsort_r(v->functions, v->n_functions, sizeof(*v->functions), compare_functions, v->types);
    for (size_t i = 0; i < v->n_functions; i++)
        if (n == 0 || v->functions[n - 1].start != v->functions[i].start)
            v->functions[n++] = v->functions[i];
    v->n_functions = n;
    return 0;
}

int hidden_vtables_new(struct hidden_vtables **out, const struct elf_image *image,
                       const struct fde_index *fdes, const struct exported_objects *objects)
{
    struct hidden_vtables *v = calloc(1, sizeof(*v));
    struct reader r = {.v = v, .image = image, .fdes = fdes, .objects = objects};
    int error;

    if (!v)
        return -ENOMEM;
    error = read_all(&r);
    free(r.words);
    if (error)
        hidden_vtables_free(v);
    else
        *out = v;
    return error;
}

void hidden_vtables_free(struct hidden_vtables *v)
{
    if (!v)
        return;
    free(v->types);
    free(v->functions);
    free(v);
}

int hidden_vtables_find(const struct hidden_vtables *v, uint64_t address, struct symbol *out)
{
    size_t low = 0, high = v ? v->n_functions : 0; /* the last that starts at or before it */
    const struct function *f;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (v->functions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    f = &v->functions[low - 1];
    if (address - f->start >= f->size)
        return 0;
    *out = (struct symbol){
        .name = v->types[f->type].name,
        .name_length = v->types[f->type].name_length,
        .start = f->start,
        .size = f->size,
        .source = SOURCE_EXPORTED_DATA,
        .of_type = 1,
        .table = f->table,
        .slot = f->slot,
    };
    return 1;
}
