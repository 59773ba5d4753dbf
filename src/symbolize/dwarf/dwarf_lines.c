/* dwarf_lines.c - source lines and inlined functions of addresses, from DWARF.
 *
 * Reads DWARF 2 to 5, of the file itself or of its split debug file (debug_file.h), compressed or
 * not, with a dwz alternate file where there is one.  An address is the file's own virtual address
 * (what dlpi_addr is subtracted from).  For a caller's frame give the return address - 1: the
 * return address itself may be the next line's, or the next function's.
 *
 * Many addresses are looked up at once: they are shared out over the compilation units, and each
 * unit that was hit is walked once, only where its ranges hold addresses (dwarf_getscopes per
 * address walks it each time).  So ask for all addresses of a file in one call.
 *
 * The file is mapped, not trusted, as far as that is in our hands: sections and their headers are
 * checked, each unit's walk is bounded by the unit's size.  Decoding itself is libdw's.
 *
 * Not read: split DWARF (`.dwo`, `.dwp`), of which lines are found, but no functions; DWARF 5's
 * `.debug_sup`.
 *
 * Memory: compressed sections may hold 64 times the file's size.  libdw keeps the decoded line table of each unit that was hit, some 50 bytes a row, until
 * dwarf_lines_free().
 *
 * Context: as symbolize.h; one thread at a time per object.
 * Source: DWARF 5, 2.17 (ranges), 3.1 (units), 3.3.8 (inlining), 6.1.2 (aranges), 6.2 (lines).
 *
 * From addresses to units and lines; dwarf_scopes.c does the rest.
 *
 * One look-up: the addresses are sorted, every unit claims those in its ranges, and the units with
 * targets are read one by one.  An address goes to the narrowest claim: a damaged or careless unit
 * may span everything.
 */
#include "dwarf_lines.h"

#include "debug_file.h"
#include "elf_image.h"
#include "line_program.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* Compressed sections of more than that are refused: of 273 debug files of Debian's the
 * most was 13. */
#define UNPACKED_PER_BYTE 64
#define STEPS_PER_BYTE 16 /* of a file: ranges read; compressed sections are larger than the file */

struct dwarf_lines {
    struct elf_image file, debug, alternate; /* `debug` is open if `file` has no DWARF */
    uint64_t limit_bytes;
    Dwarf *dwarf, *alternate_dwarf;
    struct scope_chunk *scopes; /* of all look-ups */
};

/* Opening */

/* The index of the section, which has another name where it is packed the GNU way; 0: there is none. */
static size_t find_section(const struct elf_image *image, const char *name, const char *packed)
{
    size_t index = elf_image_find(image, SHT_PROGBITS, name);

    return index ? index : elf_image_find(image, SHT_PROGBITS, packed);
}

static size_t find_dwarf(const struct elf_image *image)
{
    return find_section(image, ".debug_info", ".zdebug_info");
}

static int is_large(const struct elf_image *image, uint64_t limit_bytes)
{
    const char *bytes;

    return limit_bytes && (elf_image_bytes(image, find_dwarf(image), &bytes) > limit_bytes ||
                           elf_image_unpacked_size(image) > limit_bytes);
}

/* libelf alone would unpack 1032 times the sections' size. */
static int is_bomb(const struct elf_image *image)
{
    return elf_image_unpacked_size(image) / UNPACKED_PER_BYTE > image->size;
}

/* A file without its alternate still has lines, and all names that it does not share. */
static void open_alternate(struct dwarf_lines *d, const struct elf_image *image, const char *path,
                           const char *roots)
{
    char *alternate;

    if (debug_file_find_alternate(image, path, roots, &alternate) != 0)
        return;
    if (elf_image_open_any(&d->alternate, alternate) == 0 && !is_bomb(&d->alternate))
        d->alternate_dwarf = dwarf_begin_elf(d->alternate.elf, DWARF_C_READ, NULL);
    if (d->alternate_dwarf)
        dwarf_setalt(d->dwarf, d->alternate_dwarf);
    free(alternate);
}

static int open_dwarf(struct dwarf_lines *d, const struct elf_image *image, const char *path,
                      const char *roots)
{
    if (!find_dwarf(image))
        return -ENODATA;
    if (is_large(image, d->limit_bytes))
        return -EFBIG;
    if (is_bomb(image))
        return -EBADMSG;
    d->dwarf = dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
    if (!d->dwarf)
        return -EBADMSG;
    open_alternate(d, image, path, roots);
    return 0;
}

static int open_debug_file(struct dwarf_lines *d, const char *path, const char *roots)
{
    char *found;
    int r = debug_file_find(&d->file, path, roots, &found);

    if (r)
        return r == -ENOENT ? -ENODATA : r;
    r = elf_image_open(&d->debug, found);
    r = r ? r : open_dwarf(d, &d->debug, found, roots);
    free(found);
    return r;
}

int dwarf_lines_new(struct dwarf_lines **out, const char *path, const char *build_id,
                    const char *roots, uint64_t limit_bytes)
{
    struct dwarf_lines *d = calloc(1, sizeof(*d));
    char own_build_id[ELF_BUILD_ID_HEX];
    int r;

    if (!d)
        return -ENOMEM;
    d->limit_bytes = limit_bytes;
    r = elf_image_open(&d->file, path);
    if (r)
        goto fail;
    elf_image_build_id(&d->file, own_build_id);
    if (build_id && strcasecmp(build_id, own_build_id) != 0) {
        r = -ESTALE;
        goto fail;
    }
    r = find_dwarf(&d->file) ? open_dwarf(d, &d->file, path, roots)
                             : open_debug_file(d, path, roots);
    if (r)
        goto fail;
    *out = d;
    return 0;
fail:
    dwarf_lines_free(d);
    return r;
}

void dwarf_lines_free(struct dwarf_lines *d)
{
    if (!d)
        return;
    dwarf_end(d->dwarf);
    dwarf_end(d->alternate_dwarf);
    elf_image_close(&d->alternate);
    elf_image_close(&d->debug);
    elf_image_close(&d->file);
    scopes_free(d->scopes);
    free(d);
}

/* Which unit an address belongs to */

static void claim_range(struct target *targets, size_t n, Dwarf_Off unit, uint64_t start,
                        uint64_t end)
{
    if (start <= RANGE_DROPPED)
        return;
    for (size_t i = target_at_or_above(targets, n, start); i < n && targets[i].address < end; i++) {
        if (targets[i].unit && targets[i].claim_width <= end - start)
            continue;
        targets[i].unit = unit;
        targets[i].claim_width = end - start;
    }
}

/* By the units' own ranges.  `steps_left`: damaged units may all refer to one long range list. */
static void claim_by_units(Dwarf *dwarf, struct target *targets, size_t n, uint64_t steps_left)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;

    while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
        Dwarf_Addr base, start, end;
        ptrdiff_t next = 0;

        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        while (steps_left && (next = dwarf_ranges(&die, next, &base, &start, &end)) > 0) {
            steps_left--;
            claim_range(targets, n, dwarf_dieoffset(&die), start, end);
        }
    }
}

/* For units that do not have their ranges themselves. */
static void claim_by_aranges(Dwarf *dwarf, struct target *targets, size_t n)
{
    Dwarf_Aranges *aranges;
    size_t n_aranges;

    if (dwarf_getaranges(dwarf, &aranges, &n_aranges) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        Dwarf_Arange *range =
            targets[i].unit ? NULL : dwarf_getarange_addr(aranges, targets[i].address);
        Dwarf_Addr start;

        if (range && (dwarf_getarangeinfo(range, &start, NULL, &targets[i].unit) != 0 ||
                      start <= RANGE_DROPPED))
            targets[i].unit = 0;
    }
}

/* Reading the units */

static void find_line(Dwarf_Die *unit, struct target *target)
{
    Dwarf_Line *row = dwarf_getsrc_die(unit, target->address);
    int line;

    if (!row)
        return;
    target->out->found = 1;
    target->out->file = dwarf_linesrc(row, NULL, NULL);
    if (dwarf_lineno(row, &line) == 0 && line > 0)
        target->out->line = (unsigned)line;
}

static const char *directory_of(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;

    return dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
}

/* libdw (0.196) puts the unit's directory before the name of a file that the line program defines,
 * and dies where there is none. */
static int may_read_lines_without_directory(const struct dwarf_lines *d, Dwarf_Die *unit)
{
    const struct elf_image *image = d->debug.elf ? &d->debug : &d->file;
    size_t index = find_section(image, ".debug_line", ".zdebug_line");
    Elf_Data *lines = elf_getdata(elf_getscn(image->elf, index), NULL); /* libdw has unpacked it */
    Dwarf_Attribute attribute;
    Dwarf_Word begin;
    Dwarf_Die die;
    uint8_t address_size, offset_size;

    return lines && lines->d_buf && dwarf_diecu(unit, &die, &address_size, &offset_size) &&
           address_size == 8 &&
           dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &begin) == 0 &&
           !line_program_may_define_files(lines->d_buf, lines->d_size, begin);
}

static int read_unit(struct dwarf_lines *d, struct target *targets, size_t n)
{
    const char *directory;
    Dwarf_Die unit;
    int r, has_lines;

    if (!dwarf_offdie(d->dwarf, targets[0].unit, &unit))
        return 0;
    directory = directory_of(&unit);
    has_lines = directory || may_read_lines_without_directory(d, &unit);
    r = scopes_find(&d->scopes, d->dwarf, &unit, targets, n);
    for (size_t i = 0; i < n; i++) {
        const struct scope *scope = targets[i].scope;

        targets[i].out->directory = directory;
        if (has_lines)
            find_line(&unit, &targets[i]);
        if (!scope)
            continue;
        targets[i].out->found = 1;
        targets[i].out->function = scope->function;
        targets[i].out->inlined = scope->inlined ? &scope->call : NULL;
    }
    return r;
}

static int by_address(const void *a, const void *b)
{
    const struct target *x = a, *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

static int by_unit(const void *a, const void *b)
{
    const struct target *x = a, *y = b;
    int order = (x->unit > y->unit) - (x->unit < y->unit);

    return order ? order : by_address(a, b);
}

static int read_all_units(struct dwarf_lines *d, struct target *targets, size_t n)
{
    int r = 0;

    qsort(targets, n, sizeof(*targets), by_address);
    claim_by_units(d->dwarf, targets, n, STEPS_PER_BYTE * (d->debug.size + d->file.size));
    claim_by_aranges(d->dwarf, targets, n);
    qsort(targets, n, sizeof(*targets), by_unit);
    for (size_t i = 0, end; r == 0 && i < n; i = end) {
        for (end = i + 1; end < n && targets[end].unit == targets[i].unit; end++)
            ;
        if (targets[i].unit)
            r = read_unit(d, targets + i, end - i);
    }
    return r;
}

int dwarf_lines_find(struct dwarf_lines *d, const uint64_t *addresses, size_t n,
                     struct source_position *out)
{
    struct target *targets = calloc(n + 1, sizeof(*targets));
    int r;

    if (!targets)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct source_position){0};
        targets[i].address = addresses[i];
        targets[i].out = &out[i];
    }
    r = read_all_units(d, targets, n);
    free(targets);
    return r;
}
