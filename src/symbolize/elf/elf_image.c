/* elf_image.c - the one file that knows libelf (see elf_image.h).
 *
 * Section contents are read with elf_rawdata(), in place; libelf has checked that they lie inside
 * the file.  The one thing that libelf trusts is the header's section count, from which it
 * allocates: see check_header().
 */
#include "elf_image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTES_SIZE_MAX 65536 /* larger note sections are not a build-id's */
#define NOTES_MAX 256        /* sections or segments of them */

static int map_file(struct elf_image *image, const char *path)
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
        /* Writable copies of pages: unpacking a section, libelf mends its header in place. */
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                     fd, 0);
        if (bytes == MAP_FAILED) {
            r = -errno;
        } else {
            image->bytes = bytes;
            image->size = (size_t)st.st_size;
            image->mapped = 1;
        }
    }
    close(fd);
    return r;
}

/* That it is an ELF64 file of ours, and that its section headers lie in it. */
static int check_header(const struct elf_image *image, int relocatable_too)
{
    Elf64_Ehdr header;
    Elf64_Shdr first;
    uint64_t n;

    if (image->size < sizeof(header))
        return -ENOEXEC;
    memcpy(&header, image->bytes, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        (header.e_type != ET_EXEC && header.e_type != ET_DYN &&
         !(header.e_type == ET_REL && relocatable_too)))
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

static Elf_Scn *get_section(const struct elf_image *image, size_t index, GElf_Shdr *header)
{
    Elf_Scn *section = index ? elf_getscn(image->elf, index) : NULL;

    return gelf_getshdr(section, header) ? section : NULL;
}

int elf_image_section(const struct elf_image *image, size_t index, Elf64_Shdr *header)
{
    return get_section(image, index, header) != NULL;
}

size_t elf_image_bytes(const struct elf_image *image, size_t index, const char **bytes)
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
static int start(struct elf_image *image, int relocatable_too)
{
    size_t names = 0;
    int r = check_header(image, relocatable_too);

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
        image->section_names_size = elf_image_bytes(image, names, &image->section_names);
    return 0;
}

int elf_image_open(struct elf_image *image, const char *path)
{
    int r = map_file(image, path);

    return r ? r : start(image, 0);
}

int elf_image_open_any(struct elf_image *image, const char *path)
{
    int r = map_file(image, path);

    return r ? r : start(image, 1);
}

int elf_image_open_memory(struct elf_image *image, char *bytes, size_t size)
{
    image->bytes = bytes;
    image->size = size;
    return start(image, 0);
}

void elf_image_close(struct elf_image *image)
{
    elf_end(image->elf);
    free(image->sections);
    if (image->mapped)
        munmap(image->bytes, image->size);
    else
        free(image->bytes);
    memset(image, 0, sizeof(*image));
}

static const char *section_name(const struct elf_image *image, const GElf_Shdr *header)
{
    size_t size = image->section_names_size, at = header->sh_name;

    /* Where the last name is not ended, it has none. */
    return at < size && memchr(image->section_names + at, 0, size - at) ? image->section_names + at
                                                                        : "";
}

/* As libelf reads it: elf(5)'s Elf64_Chdr, or the older form "ZLIB" and the size, big-endian. */
static uint64_t unpacked_size(const struct elf_image *image, size_t index)
{
    static const char magic[] = "ZLIB", names[] = ".zdebug";
    GElf_Shdr header;
    GElf_Chdr packed;
    Elf_Scn *section = get_section(image, index, &header);
    const char *bytes;
    uint64_t size;

    if (section && header.sh_flags & SHF_COMPRESSED)
        return gelf_getchdr(section, &packed) ? packed.ch_size : 0;
    if (!section || strncmp(section_name(image, &header), names, strlen(names)) != 0 ||
        elf_image_bytes(image, index, &bytes) < strlen(magic) + sizeof(size) ||
        memcmp(bytes, magic, strlen(magic)) != 0)
        return 0;
    memcpy(&size, bytes + strlen(magic), sizeof(size));
    return be64toh(size);
}

uint64_t elf_image_unpacked_size(const struct elf_image *image)
{
    uint64_t sum = 0;

    for (size_t i = 1; i < image->n_sections; i++) {
        uint64_t size = unpacked_size(image, i);

        sum = size > UINT64_MAX - sum ? UINT64_MAX : sum + size;
    }
    return sum;
}

size_t elf_image_find(const struct elf_image *image, Elf64_Word type, const char *name)
{
    for (size_t i = 1; i < image->n_sections; i++) {
        GElf_Shdr header;

        if (!get_section(image, i, &header) || header.sh_type != type)
            continue;
        if (!name || strcmp(section_name(image, &header), name) == 0)
            return i;
    }
    return 0;
}

void elf_build_id_hex(const void *id, size_t n, char hex[ELF_BUILD_ID_HEX])
{
    for (const uint8_t *byte = id; n > 0; byte++, n--) {
        *hex++ = "0123456789abcdef"[*byte >> 4];
        *hex++ = "0123456789abcdef"[*byte & 15];
    }
    *hex = '\0';
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
            note.n_descsz == 0 || note.n_descsz > ELF_BUILD_ID_MAX)
            continue;
        elf_build_id_hex(id, note.n_descsz, hex);
        return 1;
    }
    return 0;
}

/* From the sections, which separate debug files keep right; else from the segments. */
void elf_image_build_id(const struct elf_image *image, char hex[ELF_BUILD_ID_HEX])
{
    size_t n_segments = 0, read = 0;

    hex[0] = '\0';
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
