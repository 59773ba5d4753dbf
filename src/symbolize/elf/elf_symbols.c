/* elf_symbols.c - from a path to a filled symbol table, and names from elsewhere where it has none.
 *
 * Owns the file's image, its split debug file's and that of the unpacked debugdata; all names point there.
 */
#include "symbolize.h"

#include "elf_reader.h"
#include "debug_file.h"
#include "elf_image.h"
#include "stripped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef SHT_X86_64_UNWIND /* x86-64 psABI, 4.2 */
#define SHT_X86_64_UNWIND 0x70000001
#endif

struct elf_symbols {
    struct elf_image file;
    struct elf_image debug; /* open if the file has no `.symtab`, and a split debug file */
    struct elf_image debugdata;
    struct fde_index fdes;
    struct symbol_table *table; /* of all symbols; NULL until one is needed */
    struct plt_stubs *stubs;
    struct exported_data *exported; /* NULL until the first address that the table does not name */
    int exported_tried;
    char build_id[ELF_BUILD_ID_HEX];
};

/* Which symbols name code, and how much of it; 0 if this one does not. */
static int make_entry(const struct elf_image *image, const struct fde_index *fdes,
                      const Elf64_Sym *symbol, struct symbol_entry *entry)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    const struct elf_section *section = &image->sections[0]; /* empty */
    uint64_t limit, fde;

    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return 0;
    if (symbol->st_shndx < SHN_LORESERVE && symbol->st_shndx < image->n_sections)
        section = &image->sections[symbol->st_shndx];
    if (symbol->st_name == 0 || symbol->st_value < section->start ||
        symbol->st_value >= section->end)
        return 0;
    if (!section->executable && (type == STT_NOTYPE || symbol->st_size == 0))
        return 0;
    limit = section->end - symbol->st_value;
    entry->start = symbol->st_value;
    entry->size = symbol->st_size;
    entry->name = symbol->st_name;
    entry->unsized = symbol->st_size == 0;
    entry->type = type == STT_FUNC        ? ENTRY_FUNCTION
                  : type == STT_GNU_IFUNC ? ENTRY_IFUNC
                                          : ENTRY_OTHER;
    entry->binding = binding == STB_LOCAL ? 2 : binding == STB_WEAK ? 1 : 0;
    if (entry->unsized) {
        fde = fde_index_next(fdes, symbol->st_value) - symbol->st_value;
        entry->size = fde < limit ? fde : limit;
    } else if (entry->size > limit) {
        entry->size = limit;
    }
    return 1;
}

/* What is wanted of a file's symbols. */
struct choice {
    struct symbol_table *table;
    const struct asked *asked; /* those with a size that name one of these; NULL: all */
    int left_out;              /* one without a size that might name one of them */
};

/* Is the entry to be in the table?  Few of the symbols get so far that their section is looked at. */
static int is_chosen(struct choice *c, const struct elf_image *image, const struct fde_index *fdes,
                     const Elf64_Sym *symbol, struct symbol_entry *entry)
{
    uint64_t most = UINT64_MAX - symbol->st_value;

    if (!c->asked)
        return make_entry(image, fdes, symbol, entry);
    if (symbol->st_size &&
        !asked_within(c->asked, symbol->st_value, symbol->st_size < most ? symbol->st_size : most))
        return 0;
    if (!make_entry(image, fdes, symbol, entry) ||
        !asked_within(c->asked, entry->start, entry->size))
        return 0;
    c->left_out |= entry->unsized;
    return !entry->unsized;
}

/* Adds one symbol table's functions.  One that does not hold adds nothing: others may. */
static int add_symbols(struct choice *c, const struct elf_image *image,
                       const struct fde_index *fdes, Elf64_Word type, enum symbol_source source)
{
    size_t index = elf_image_find(image, type, NULL), n, strings_size;
    const char *symbols, *strings;
    Elf64_Shdr header;
    int r;

    if (!elf_image_section(image, index, &header))
        return 0;
    n = elf_image_bytes(image, index, &symbols) / sizeof(Elf64_Sym);
    strings_size = elf_image_bytes(image, header.sh_link, &strings);
    if (n == 0 || strings_size == 0 || header.sh_entsize != sizeof(Elf64_Sym))
        return 0;
    r = symbol_table_reserve(c->table, n);
    if (r)
        return r;
    symbol_table_strings(c->table, source, strings, strings_size);
    for (size_t i = 1; i < n; i++) { /* 0 is the undefined symbol */
        struct symbol_entry entry = {.source = (uint8_t)source};
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol)); /* may be unaligned */
        if (symbol.st_name < strings_size && is_chosen(c, image, fdes, &symbol, &entry))
            symbol_table_add(c->table, entry);
    }
    return 0;
}

/* The table is the caller's to free, also after an error. */
static int make_table(struct elf_symbols *s, struct choice *c)
{
    const struct fde_index *fdes = &s->fdes;
    int r = symbol_table_new(&c->table);

    r = r ? r : add_symbols(c, &s->file, fdes, SHT_SYMTAB, SOURCE_SYMTAB);
    r = r ? r : add_symbols(c, &s->debug, fdes, SHT_SYMTAB, SOURCE_DEBUG_FILE);
    r = r ? r : add_symbols(c, &s->debugdata, fdes, SHT_SYMTAB, SOURCE_DEBUGDATA);
    r = r ? r : add_symbols(c, &s->file, fdes, SHT_DYNSYM, SOURCE_DYNSYM);
    return r ? r : symbol_table_index(c->table);
}

/* All symbols of the file.  0 or -errno. */
static int need_table(struct elf_symbols *s)
{
    struct choice all = {0};
    int r = s->table ? 0 : make_table(s, &all);

    if (r)
        symbol_table_free(all.table);
    else if (!s->table)
        s->table = all.table;
    return r;
}

/* Unpacks the mini ELF file; one that is damaged or too large is left out. */
static void open_debugdata(struct elf_symbols *s)
{
    size_t index = elf_image_find(&s->file, SHT_PROGBITS, ".gnu_debugdata"), size, unpacked_size;
    const char *packed;
    uint8_t *unpacked;

    size = elf_image_bytes(&s->file, index, &packed);
    if (size && debugdata_unpack((const uint8_t *)packed, size, &unpacked, &unpacked_size) == 0 &&
        elf_image_open_memory(&s->debugdata, (char *)unpacked, unpacked_size) != 0)
        elf_image_close(&s->debugdata);
}

/* clang and some linkers give unwind tables a type of their own. */
static size_t find_unwind_table(const struct elf_image *image, const char *name)
{
    size_t index = elf_image_find(image, SHT_PROGBITS, name);

    return index ? index : elf_image_find(image, SHT_X86_64_UNWIND, name);
}

static void read_fdes(struct elf_symbols *s)
{
    size_t header = find_unwind_table(&s->file, ".eh_frame_hdr");
    size_t frames = find_unwind_table(&s->file, ".eh_frame"), size;
    const char *section;

    size = elf_image_bytes(&s->file, header, &section);
    if (size)
        fde_index_read(&s->fdes, section, size, s->file.sections[header].start);
    size = elf_image_bytes(&s->file, frames, &section);
    if (size)
        fde_index_frames(&s->fdes, section, size, s->file.sections[frames].start);
}

/* Without one, or with one that cannot be opened, there are fewer names. */
static void open_debug_file(struct elf_symbols *s, const char *path, const char *roots)
{
    char *found;

    if (elf_image_find(&s->file, SHT_SYMTAB, NULL) ||
        debug_file_find(&s->file, path, roots, &found) != 0)
        return;
    if (elf_image_open(&s->debug, found) != 0)
        elf_image_close(&s->debug);
    free(found);
}

int elf_symbols_new(struct elf_symbols **out, const char *path, const char *build_id,
                    const char *roots)
{
    struct elf_symbols *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return -ENOMEM;
    r = elf_image_open(&s->file, path);
    if (r)
        goto fail;
    elf_image_build_id(&s->file, s->build_id);
    if (build_id && strcasecmp(build_id, s->build_id) != 0) {
        r = -ESTALE;
        goto fail;
    }
    read_fdes(s);
    open_debug_file(s, path, roots);
    open_debugdata(s);
    r = plt_stubs_new(&s->stubs, &s->file);
    if (r)
        goto fail;
    *out = s;
    return 0;
fail:
    elf_symbols_free(s);
    return r;
}

void elf_symbols_free(struct elf_symbols *s)
{
    if (!s)
        return;
    exported_data_free(s->exported);
    plt_stubs_free(s->stubs);
    symbol_table_free(s->table);
    elf_image_close(&s->debugdata);
    elf_image_close(&s->debug);
    elf_image_close(&s->file);
    free(s);
}

const char *elf_symbols_build_id(const struct elf_symbols *s)
{
    return s->build_id[0] ? s->build_id : NULL;
}

static int find_stub(struct elf_symbols *s, uint64_t address, struct symbol *out)
{
    struct plt_stub stub;
    struct symbol chosen;

    if (!plt_stubs_find(s->stubs, address, &stub))
        return 0;
    if (!stub.name) {
        if (need_table(s) != 0 || !symbol_table_find_chosen(s->table, stub.resolver, &chosen))
            return 0;
        stub.name = chosen.name;
        stub.name_length = chosen.name_length;
    }
    *out = (struct symbol){
        .name = stub.name,
        .name_length = stub.name_length,
        .start = stub.start,
        .size = stub.size,
        .source = SOURCE_PLT,
    };
    return 1;
}

/* What such a table does not name is no function: padding. */
static int has_symtab(const struct elf_symbols *s)
{
    return elf_image_find(&s->file, SHT_SYMTAB, NULL) ||
           elf_image_find(&s->debug, SHT_SYMTAB, NULL);
}

/* What no symbol names. */
static int find_elsewhere(struct elf_symbols *s, uint64_t address, struct symbol *out)
{
    struct symbol own;

    if (find_stub(s, address, out))
        return 1;
    if (!s->exported_tried) { /* without memory for it there are fewer names, no error */
        s->exported_tried = 1;
        if (!has_symtab(s))
            (void)exported_data_new(&s->exported, &s->file, &s->fdes);
    }
    /* A function that has a symbol needs no other name for what lies beyond its size. */
    return exported_data_find(s->exported, address, out) && need_table(s) == 0 &&
           !symbol_table_find(s->table, out->start, &own);
}

int elf_symbols_find(struct elf_symbols *s, uint64_t address, struct symbol *out)
{
    int r = need_table(s);

    return r ? r : symbol_table_find(s->table, address, out) || find_elsewhere(s, address, out);
}

/* By the symbols that have a size, and cover one of the addresses: where any of these does, others
 * do not count (symbolize.h). */
int elf_symbols_find_all(struct elf_symbols *s, const uint64_t *addresses, size_t n,
                         struct symbol *out)
{
    struct asked *asked = NULL;
    struct choice near = {0};
    int r = asked_new(&asked, addresses, n);

    near.asked = asked;
    r = r ? r : make_table(s, &near);
    for (size_t i = 0; r >= 0 && i < n; i++) {
        if (symbol_table_find(near.table, addresses[i], &out[i]))
            continue;
        r = near.left_out ? elf_symbols_find(s, addresses[i], &out[i])
                          : find_elsewhere(s, addresses[i], &out[i]);
        if (r == 0)
            out[i] = (struct symbol){0};
    }
    symbol_table_free(near.table);
    asked_free(asked);
    return r < 0 ? r : 0;
}
