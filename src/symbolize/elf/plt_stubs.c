/* plt_stubs.c - names for x86-64's stubs of the procedure linkage table: `memcpy@plt`.
 *
 * A call of another file's function goes to a stub, which jumps to where its slot of the global offset
 * table points; the relocation of that slot names whose address the loader writes there.  Stubs lie
 * in `.plt` and in what linkers put beside it (`.plt.sec`, `.plt.got`, `.iplt`), all of one size in a
 * section, and have no symbols.  A stub for a function that is chosen when the file is loaded
 * (STT_GNU_IFUNC) has, if that is not exported, no symbol in its relocation but the address of the
 * function that chooses.
 *
 * The file is not trusted: memory is at most four times its size, the work n log n.
 *
 * Context: as symbolize.h.  Source: x86-64 psABI, 5.2 and table 4.9; what GNU ld, gold, lld and
 * mold write.
 *
 * From a stub's instructions to its slot, from that to its relocation and a name.
 */
#include "elf_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STUB_SIZE 16 /* where the section does not have it */
#define N_SECTIONS 4
#define NAME_LENGTH_MAX (1u << 20)

struct slot {
    uint64_t place;
    uint64_t resolver;
    uint32_t symbol; /* 0: see `resolver` */
};

struct plt_section {
    uint64_t start, size, stub_size;
    const char *code;
};

struct plt_stubs {
    const struct elf_image *image;
    struct plt_section sections[N_SECTIONS];
    size_t n_sections;
    size_t dynsym;      /* 0: none */
    int slots_read;     /* or tried to */
    struct slot *slots; /* by place */
    size_t n_slots, capacity;
};

static const char *const section_names[N_SECTIONS] = {".plt", ".plt.sec", ".plt.got", ".iplt"};

static void add_section(struct plt_stubs *p, const char *name)
{
    size_t index = elf_image_find(p->image, SHT_PROGBITS, name), size;
    const struct elf_section *in_memory = &p->image->sections[index];
    struct plt_section *section = &p->sections[p->n_sections];
    Elf64_Shdr header;

    size = elf_image_bytes(p->image, index, &section->code);
    if (size == 0 || !in_memory->executable || !elf_image_section(p->image, index, &header))
        return;
    section->start = in_memory->start;
    section->size =
        in_memory->end - in_memory->start < size ? in_memory->end - in_memory->start : size;
    section->stub_size = header.sh_entsize == 8 ? 8 : STUB_SIZE;
    p->n_sections++;
}

int plt_stubs_new(struct plt_stubs **out, const struct elf_image *image)
{
    struct plt_stubs *p = calloc(1, sizeof(*p));

    if (!p)
        return -ENOMEM;
    p->image = image;
    for (size_t i = 0; i < N_SECTIONS; i++)
        add_section(p, section_names[i]);
    p->dynsym = elf_image_find(image, SHT_DYNSYM, NULL);
    *out = p;
    return 0;
}

void plt_stubs_free(struct plt_stubs *p)
{
    if (!p)
        return;
    free(p->slots);
    free(p);
}

static int add_slot(void *context, const struct relocation *relocation)
{
    struct plt_stubs *p = context;

    if (relocation->kind == RELOCATION_POINTER)
        return 0;
    if (p->n_slots == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 256;
        struct slot *larger = reallocarray(p->slots, capacity, sizeof(*larger));

        if (!larger)
            return -ENOMEM;
        p->slots = larger;
        p->capacity = capacity;
    }
    p->slots[p->n_slots++] = (struct slot){
        .place = relocation->place,
        .resolver = relocation->symbol ? 0 : relocation->addend,
        .symbol = relocation->symbol,
    };
    return 0;
}

static int compare_slots(const void *one, const void *other)
{
    const struct slot *a = one, *b = other;

    return a->place < b->place ? -1 : a->place > b->place;
}

static const struct slot *find_slot(struct plt_stubs *p, uint64_t place)
{
    const struct slot wanted = {.place = place};

    if (!p->slots_read) {
        p->slots_read = 1;
        (void)relocations_read(p->image, p->dynsym, add_slot, p); /* those before an error hold */
        if (p->n_slots)
            qsort(p->slots, p->n_slots, sizeof(*p->slots), compare_slots);
    }
    return p->n_slots ? bsearch(&wanted, p->slots, p->n_slots, sizeof(wanted), compare_slots)
                      : NULL;
}

/* Steps over one instruction, or the beginning of one, if it is there. */
static size_t skip(const struct plt_section *section, size_t at, const char *opcode, size_t length,
                   size_t operands)
{
    size_t rest = section->size - at;

    return rest >= length + operands && memcmp(section->code + at, opcode, length) == 0
               ? at + length + operands
               : at;
}

/* Of the stub at `at`: [endbr64] [mov $N, %r11d] [bnd] jmp *SLOT(%rip).  0: it does not jump so, as the
 * first stub of a section and those that are run once, before their slot is written. */
static uint64_t read_slot(const struct plt_section *section, size_t at)
{
    int32_t distance;
    size_t end;

    at = skip(section, at, "\xf3\x0f\x1e\xfa", 4, 0);
    at = skip(section, at, "\x41\xbb", 2, 4);
    at = skip(section, at, "\xf2", 1, 0);
    end = skip(section, at, "\xff\x25", 2, sizeof(distance));
    if (end == at)
        return 0;
    memcpy(&distance, section->code + end - sizeof(distance), sizeof(distance));
    return section->start + end + (uint64_t)(int64_t)distance;
}

/* The name in `.dynsym`; NULL if it does not hold. */
static const char *symbol_name(const struct plt_stubs *p, uint32_t index, size_t *length)
{
    const char *symbols, *strings;
    size_t n = elf_image_bytes(p->image, p->dynsym, &symbols) / sizeof(Elf64_Sym), size, limit;
    Elf64_Shdr header;
    Elf64_Sym symbol;

    if (index >= n || !elf_image_section(p->image, p->dynsym, &header))
        return NULL;
    memcpy(&symbol, symbols + index * sizeof(symbol), sizeof(symbol)); /* may be unaligned */
    size = elf_image_bytes(p->image, header.sh_link, &strings);
    if (symbol.st_name >= size)
        return NULL;
    limit = size - symbol.st_name < NAME_LENGTH_MAX ? size - symbol.st_name : NAME_LENGTH_MAX;
    *length = strnlen(strings + symbol.st_name, limit);
    return *length ? strings + symbol.st_name : NULL;
}

int plt_stubs_find(struct plt_stubs *p, uint64_t address, struct plt_stub *out)
{
    for (size_t i = 0; p && i < p->n_sections; i++) {
        const struct plt_section *section = &p->sections[i];
        uint64_t at = address - section->start, place;
        const struct slot *slot;

        if (address < section->start || at >= section->size)
            continue;
        at -= at % section->stub_size;
        place = read_slot(section, at);
        slot = place ? find_slot(p, place) : NULL;
        if (!slot)
            return 0;
        *out = (struct plt_stub){
            .start = section->start + at,
            .size = section->stub_size,
            .resolver = slot->resolver,
        };
        if (slot->symbol)
            out->name = symbol_name(p, slot->symbol, &out->name_length);
        return out->name || out->resolver;
    }
    return 0;
}
