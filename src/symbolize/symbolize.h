/* symbolize.h - names for addresses of ELF files.
 *
 * One ELF file is opened, its function symbols from `.symtab` (its own or its split debug file's),
 * `.gnu_debugdata` and `.dynsym` are put into one table, as far as they are needed, and addresses are looked up in it.
 * An address is the file's own virtual address (what dlpi_addr is subtracted from).  A symbol names its st_size bytes
 * and no more.
 *
 * Which symbol names an address:
 *   1. a symbol with a size before one without.  One without (hand-written assembly) names what
 *      lies before the next symbol, the next FDE (eh_frame_hdr.c) and the end of its section, and only if
 *      no sized symbol covers its start;
 *   2. the innermost: of those that cover the address, the one that starts last;
 *   3. at one start: the better source (enum symbol_source), then the smaller size, then what a
 *      reader knows it by (symbol_table.c, `compare`).  The order is total: one file, one answer.
 *
 * A stub of the procedure linkage table is named by what it jumps to (plt_stubs.c).
 *
 * Without `.symtab`, an address that no symbol names may get one from an exported object that points to its function
 * (exported_data.c), or from the type whose vtable does (hidden_vtables.c).
 *
 * The file is mapped, not trusted (elf_image.h): offsets, counts and names are checked against the
 * file's size, and memory is bounded by a small multiple of it.  A table that does not hold is left
 * out; the others still name.
 *
 * Context: the finishing process, after the profiled program ended; any thread, no locks, one
 * thread at a time for one struct.  Never in the profiled process: this folder links libelf, libdw,
 * liblzma, zlib and libstdc++.
 */
#ifndef PYH_SYMBOLIZE_H
#define PYH_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

/* Best first. */
enum symbol_source {
    SOURCE_SYMTAB,
    SOURCE_DEBUG_FILE, /* the `.symtab` of the split debug file (debug_file.h) */
    SOURCE_DYNSYM,     /* before `.gnu_debugdata`: other tools know these names, too */
    SOURCE_DEBUGDATA,
    SOURCE_PLT, /* `name` is that of the function to which a stub jumps (plt_stubs.c) */
    SOURCE_EXPORTED_DATA,
    N_SOURCES
};

struct symbol {
    const char *name; /* as the file spells it, without "@VERSION"; not NUL-terminated, any bytes;
                         lives as long as the struct elf_symbols */
    size_t name_length;
    uint64_t start;
    uint64_t size; /* st_size; for a symbol without one, what it was found to name */
    enum symbol_source source;
    /* SOURCE_EXPORTED_DATA: `name` is that of an object that points to the function, */
    int of_type;    /* or of the type whose vtable does, without "_ZTV"; */
    uint32_t table; /* in a vtable: from which of its virtual tables, 0 the primary one; else 0 */
    uint32_t slot;  /* as which virtual function; in other objects from which 8-byte word */
};

struct elf_symbols;

/* Opens `path`.  `build_id` (hex, or NULL) is what the file must carry; where it has no `.symtab`,
 * a split debug file is sought in `roots` (debug_file.h).  Returns 0;
 * -ENOEXEC: not an ELF64 little-endian program or library; -EBADMSG: its headers do not hold;
 * -ESTALE: another build-id, or none; otherwise the -errno of opening or mapping it. */
int elf_symbols_new(struct elf_symbols **out, const char *path, const char *build_id,
                    const char *roots);
void elf_symbols_free(struct elf_symbols *s);

/* Returns the build-id in lower-case hex, or NULL if the file carries none. */
const char *elf_symbols_build_id(const struct elf_symbols *s);

/* Returns 1 and *out, or 0 if nothing names the address, or -errno.  Where there is no `.symtab`, the first address
 * that no symbol names costs reading the relocations; so does the first one in a stub. */
int elf_symbols_find(struct elf_symbols *s, uint64_t address, struct symbol *out);

/* Does the same for each of the addresses, where `name` is NULL in what nothing names.  Returns 0 or -errno.  Symbols
 * that name none of them are not put in order, so it takes a quarter of the time: ask for all of a file at once. */
int elf_symbols_find_all(struct elf_symbols *s, const uint64_t *addresses, size_t n,
                         struct symbol *out);

/* Returns the readable form of an Itanium C++ name or of Rust's (demangle_rust.h), for the caller to free();
 * NULL for any other name, and where that of C++ would be longer than 64 KiB. */
char *symbol_demangle(const char *name);

#endif
