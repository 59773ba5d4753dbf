/* elf_symbols.c - the one file that knows libelf: from a path to a filled symbol table.
 *
 * The file is mapped by us and given to libelf as memory, so that no descriptor stays open and the
 * small ELF file inside `.gnu_debugdata` takes the same way.  Section contents are read with
 * elf_rawdata(), in place; libelf has checked that they lie inside the file, whether their
 * contents make sense is checked here.  The one thing that libelf trusts is the header's section
 * count, from which it allocates: see check_header().
 *
 * Owns the mapping, the unpacked debugdata and both Elf handles; the table's names point there.
 * Source: elf(5); System V gABI, chapters 4 and 5.
 */
#include "symbolize.h"

#include "debugdata.h"
#include "fde.h"
#include "symbol_table.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILD_ID_MAX 64      /* bytes; SHA-1 has 20 */
#define NOTES_SIZE_MAX 65536 /* larger note sections are not a build-id's */
#define NOTES_MAX 256        /* sections or segments of them */

struct section {
    uint64_t start, end; /* virtual addresses; empty: names nothing */
    int executable;
};

struct image { /* one ELF file in memory */
    char *bytes;
    size_t size;
    Elf *elf;
    const char *section_names;
    size_t section_names_size;
    struct section *sections;
    size_t n_sections;
};

struct elf_symbols {
    struct image file;
    struct image debugdata;
    struct symbol_table *table;
    char build_id[2 * BUILD_ID_MAX + 1]; /* hex; empty: none */
};

static int map_file(struct image *image, const char *path)
{
    /* O_NONBLOCK: a path that turns out to be a FIFO must not stop us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r = 0;
    struct stat st;
    void *bytes;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (!S_ISREG(st.st_mode))
        r = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    else if (st.st_size < (off_t)sizeof(Elf64_Ehdr))
        r = -ENOEXEC;
    if (r == 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            r = -errno;
        } else {
            image->bytes = bytes;
            image->size = (size_t)st.st_size;
        }
    }
    close(fd);
    return r;
}

/* That it is an ELF64 file of ours, and that its section headers lie in it. */
static int check_header(const struct image *image)
{
    Elf64_Ehdr header;
    Elf64_Shdr first;
    uint64_t n;

    if (image->size < sizeof(header))
        return -ENOEXEC;
    memcpy(&header, image->bytes, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        (header.e_type != ET_EXEC && header.e_type != ET_DYN))
        return -ENOEXEC;
    if (header.e_shoff == 0)
        return 0;
    if (header.e_shentsize != sizeof(first) || header.e_shoff > image->size ||
        image->size - header.e_shoff < sizeof(first))
        return -EBADMSG;
    memcpy(&first, image->bytes + header.e_shoff, sizeof(first));
    n = header.e_shnum ? header.e_shnum : first.sh_size; /* gABI: extended section numbering */
    return n > (image->size - header.e_shoff) / sizeof(first) ? -EBADMSG : 0;
}

/* By copy: in the file a header may lie unaligned.  NULL if there is no such section. */
static Elf_Scn *get_section(const struct image *image, size_t index, GElf_Shdr *header)
{
    Elf_Scn *section = index ? elf_getscn(image->elf, index) : NULL;

    return gelf_getshdr(section, header) ? section : NULL;
}

/* A section's bytes as they lie in the file; 0 and NULL if it has none there. */
static size_t section_bytes(const struct image *image, size_t index, const char **bytes)
{
    GElf_Shdr header;
    Elf_Scn *section = get_section(image, index, &header);
    Elf_Data *data = NULL;

    if (section && header.sh_type != SHT_NOBITS && !(header.sh_flags & SHF_COMPRESSED))
        data = elf_rawdata(section, NULL);
    *bytes = data ? data->d_buf : NULL;
    return *bytes ? data->d_size : 0;
}

/* Starts libelf on an image whose bytes are set, and notes where its sections lie. */
static int image_open(struct image *image)
{
    size_t names = 0;
    int r = check_header(image);

    if (r)
        return r;
    elf_version(EV_CURRENT);
    image->elf = elf_memory(image->bytes, image->size);
    if (!image->elf || elf_getshdrnum(image->elf, &image->n_sections) < 0)
        return -EBADMSG;
    image->sections = calloc(image->n_sections + 1, sizeof(*image->sections));
    if (!image->sections)
        return -ENOMEM;
    for (size_t i = 1; i < image->n_sections; i++) {
        GElf_Shdr header;

        if (!get_section(image, i, &header))
            return -EBADMSG;
        if (!(header.sh_flags & SHF_ALLOC) || header.sh_addr + header.sh_size < header.sh_addr)
            continue;
        image->sections[i].start = header.sh_addr;
        image->sections[i].end = header.sh_addr + header.sh_size;
        image->sections[i].executable = (header.sh_flags & SHF_EXECINSTR) != 0;
    }
    if (elf_getshdrstrndx(image->elf, &names) == 0)
        image->section_names_size = section_bytes(image, names, &image->section_names);
    return 0;
}

/* The first section of a type, and of a name unless that is NULL; 0 if there is none. */
static size_t find_section(const struct image *image, Elf64_Word type, const char *name)
{
    for (size_t i = 1; i < image->n_sections; i++) {
        size_t size = image->section_names_size;
        GElf_Shdr header;

        if (!get_section(image, i, &header) || header.sh_type != type)
            continue;
        if (!name || (header.sh_name < size && strlen(name) < size - header.sh_name &&
                      strcmp(image->section_names + header.sh_name, name) == 0))
            return i;
    }
    return 0;
}

/* Takes the build-id out of a block of notes; 1 if there is one. */
static int read_notes(Elf_Data *notes, char *hex)
{
    size_t next = 0, name, description;
    GElf_Nhdr note;

    if (!notes || !notes->d_buf)
        return 0;
    while ((next = gelf_getnote(notes, next, &note, &name, &description)) > 0) {
        const uint8_t *id = (const uint8_t *)notes->d_buf + description;

        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof(ELF_NOTE_GNU) ||
            memcmp((const char *)notes->d_buf + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) != 0 ||
            note.n_descsz == 0 || note.n_descsz > BUILD_ID_MAX)
            continue;
        for (size_t i = 0; i < note.n_descsz; i++) {
            *hex++ = "0123456789abcdef"[id[i] >> 4];
            *hex++ = "0123456789abcdef"[id[i] & 15];
        }
        *hex = '\0';
        return 1;
    }
    return 0;
}

/* From the sections, which separate debug files keep right; else from the segments. */
static void read_build_id(const struct image *image, char *hex)
{
    size_t n_segments = 0, read = 0;

    for (size_t i = 1; i < image->n_sections && read < NOTES_MAX; i++) {
        GElf_Shdr header;
        Elf_Scn *section = get_section(image, i, &header);

        if (section && header.sh_type == SHT_NOTE && header.sh_size <= NOTES_SIZE_MAX && ++read &&
            read_notes(elf_getdata(section, NULL), hex))
            return;
    }
    if (elf_getphdrnum(image->elf, &n_segments) < 0)
        return;
    for (size_t i = 0; i < n_segments && i < NOTES_MAX; i++) {
        GElf_Phdr segment;

        if (gelf_getphdr(image->elf, (int)i, &segment) && segment.p_type == PT_NOTE &&
            segment.p_filesz <= NOTES_SIZE_MAX &&
            read_notes(elf_getdata_rawchunk(image->elf, (int64_t)segment.p_offset, segment.p_filesz,
                                            segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                       hex))
            return;
    }
}

/* Which symbols name code, and how much of it; 0 if this one does not. */
static int make_entry(const struct image *image, const struct fde_index *fdes,
                      const Elf64_Sym *symbol, struct symbol_entry *entry)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    const struct section *section = &image->sections[0]; /* empty */
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
    entry->type = type == STT_FUNC ? 0 : type == STT_GNU_IFUNC ? 1 : 2;
    entry->binding = binding == STB_LOCAL ? 2 : binding == STB_WEAK ? 1 : 0;
    if (entry->unsized) {
        fde = fde_index_next(fdes, symbol->st_value) - symbol->st_value;
        entry->size = fde < limit ? fde : limit;
    } else if (entry->size > limit) {
        entry->size = limit;
    }
    return 1;
}

/* Adds one symbol table's functions.  One that does not hold adds nothing: others may. */
static int add_symbols(struct symbol_table *table, const struct image *image,
                       const struct fde_index *fdes, Elf64_Word type, enum symbol_source source)
{
    size_t index = find_section(image, type, NULL), n, strings_size;
    const char *symbols, *strings;
    GElf_Shdr header;
    int r;

    if (!get_section(image, index, &header))
        return 0;
    n = section_bytes(image, index, &symbols) / sizeof(Elf64_Sym);
    strings_size = section_bytes(image, header.sh_link, &strings);
    if (n == 0 || strings_size == 0 || header.sh_entsize != sizeof(Elf64_Sym))
        return 0;
    r = symbol_table_reserve(table, n);
    if (r)
        return r;
    symbol_table_strings(table, source, strings, strings_size);
    for (size_t i = 1; i < n; i++) { /* 0 is the undefined symbol */
        struct symbol_entry entry = {.source = (uint8_t)source};
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol)); /* may be unaligned */
        if (symbol.st_name < strings_size && make_entry(image, fdes, &symbol, &entry))
            symbol_table_add(table, entry);
    }
    return 0;
}

/* Unpacks the mini ELF file; one that is damaged or too large is left out. */
static int add_debugdata(struct elf_symbols *s, const struct fde_index *fdes)
{
    size_t index = find_section(&s->file, SHT_PROGBITS, ".gnu_debugdata"), size;
    const char *packed;
    uint8_t *unpacked;

    size = section_bytes(&s->file, index, &packed);
    if (size == 0 ||
        debugdata_unpack((const uint8_t *)packed, size, &unpacked, &s->debugdata.size) != 0)
        return 0;
    s->debugdata.bytes = (char *)unpacked;
    if (image_open(&s->debugdata) != 0)
        return 0;
    return add_symbols(s->table, &s->debugdata, fdes, SHT_SYMTAB, SOURCE_DEBUGDATA);
}

static int build_table(struct elf_symbols *s)
{
    size_t index = find_section(&s->file, SHT_PROGBITS, ".eh_frame_hdr"), size;
    struct fde_index fdes = {0};
    const char *section;
    int r = symbol_table_new(&s->table);

    if (r)
        return r;
    size = section_bytes(&s->file, index, &section);
    if (size)
        fde_index_read(&fdes, section, size, s->file.sections[index].start);
    r = add_symbols(s->table, &s->file, &fdes, SHT_SYMTAB, SOURCE_SYMTAB);
    r = r ? r : add_debugdata(s, &fdes);
    r = r ? r : add_symbols(s->table, &s->file, &fdes, SHT_DYNSYM, SOURCE_DYNSYM);
    return r ? r : symbol_table_index(s->table);
}

int elf_symbols_new(struct elf_symbols **out, const char *path, const char *build_id)
{
    struct elf_symbols *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return -ENOMEM;
    r = map_file(&s->file, path);
    if (r)
        goto fail;
    r = image_open(&s->file);
    if (r)
        goto fail;
    read_build_id(&s->file, s->build_id);
    if (build_id && strcasecmp(build_id, s->build_id) != 0) {
        r = -ESTALE;
        goto fail;
    }
    r = build_table(s);
    if (r)
        goto fail;
    *out = s;
    return 0;
fail:
    elf_symbols_free(s);
    return r;
}

static void image_close(struct image *image)
{
    elf_end(image->elf);
    free(image->sections);
}

void elf_symbols_free(struct elf_symbols *s)
{
    if (!s)
        return;
    symbol_table_free(s->table);
    image_close(&s->debugdata);
    image_close(&s->file);
    free(s->debugdata.bytes);
    if (s->file.bytes)
        munmap(s->file.bytes, s->file.size);
    free(s);
}

const char *elf_symbols_build_id(const struct elf_symbols *s)
{
    return s->build_id[0] ? s->build_id : NULL;
}

int elf_symbols_find(const struct elf_symbols *s, uint64_t address, struct symbol *out)
{
    return symbol_table_find(s->table, address, out);
}
